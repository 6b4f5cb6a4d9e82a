// What the calls on calculation contexts refuse, with which value, and that nothing is written or
// under way then.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <tuple>

#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

namespace ring::ec_verbs {
namespace {

constexpr int kData = 10;
constexpr int kCode = 3;
constexpr int kSize = 192;

enum class Call { kEncode, kDecode, kUpdate };

std::string NameOf(const ::testing::TestParamInfo<std::tuple<Call, bool>>& info) {
  const char* const names[] = {"Encode", "Decode", "Update"};
  return std::string(names[static_cast<int>(std::get<0>(info.param))]) +
         (std::get<1>(info.param) ? "Sync" : "Async");
}

// One of the six calls with arguments that it takes, to be spoiled: an encode, a decode of data
// block 1, or an update of code block 1 for data block 4. The context polls, so that an operation
// that was submitted after all is found.
class EcRefusalTest : public ::testing::TestWithParam<std::tuple<Call, bool>> {
 protected:
  EcRefusalTest() {
    SeededRandom random(21);
    stripe_.Fill(random);
    update_.Fill(random);
    before_ = std::array<Bytes, 2>{stripe_.memory().bytes(), update_.memory().bytes()};
    ibv_exp_ec_calc_init_attr attr = Attributes(kData, kCode, 4, matrix_);
    attr.polling = 1;
    calc_ = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
    Reset();
  }
  ~EcRefusalTest() override {
    if (calc_ != nullptr) ibv_exp_dealloc_ec_calc(calc_);
  }

  static Call call() { return std::get<0>(GetParam()); }
  static bool waits() { return std::get<1>(GetParam()); }

  void Reset() {
    Stripe& stripe = call() == Call::kUpdate ? update_ : stripe_;
    data_ = stripe.data();
    code_ = stripe.code();
    mem_ = {data_.data(), static_cast<int>(data_.size()), code_.data(),
            static_cast<int>(code_.size()), kSize};
    arguments_ = &mem_;
    comp_ = {[](ibv_exp_ec_comp*) {}, IBV_EXP_EC_CALC_SUCCESS};
    completion_ = &comp_;
    erasures_.assign(kData + kCode, 0);
    erasures_[1] = 1;
    data_updates_.assign(kData, 0);
    data_updates_[4] = 1;
    code_updates_ = {0, 1, 0};
    first_map_ = call() == Call::kDecode ? erasures_.data() : data_updates_.data();
    second_map_ = call() == Call::kDecode ? decode_matrix_.data() : code_updates_.data();
  }
  int Go() {
    switch (call()) {
      case Call::kEncode:
        return waits() ? ibv_exp_ec_encode_sync(calc_, arguments_)
                       : ibv_exp_ec_encode_async(calc_, arguments_, completion_);
      case Call::kDecode:
        return waits() ? ibv_exp_ec_decode_sync(calc_, arguments_, first_map_, second_map_)
                       : ibv_exp_ec_decode_async(calc_, arguments_, first_map_, second_map_,
                                                 completion_);
      default:
        return waits() ? ibv_exp_ec_update_sync(calc_, arguments_, first_map_, second_map_)
                       : ibv_exp_ec_update_async(calc_, arguments_, first_map_, second_map_,
                                                 completion_);
    }
  }
  // What the call says to arguments that `spoil` has changed. Nothing may come of it.
  int With(const std::function<void()>& spoil) {
    spoil();
    const int result = Go();
    Reset();
    EXPECT_EQ(ibv_exp_ec_poll(calc_, 100), 0);
    EXPECT_EQ(stripe_.memory().bytes(), before_[0]);
    EXPECT_EQ(update_.memory().bytes(), before_[1]);
    return result;
  }
  ibv_sge& Output() { return call() == Call::kDecode ? data_[1] : code_[0]; }
  ibv_sge& Input() { return data_[2]; }

  Domain domain_;
  Bytes matrix_ = SlowField(4).CauchyMatrix(kData, kCode);
  Bytes decode_matrix_ = Bytes(kData, 1);
  Stripe stripe_{domain_.pd(), kData, kCode, kSize};
  Stripe update_{domain_.pd(), 3, 1, kSize};
  std::array<Bytes, 2> before_;
  ibv_exp_ec_calc* calc_;
  std::vector<ibv_sge> data_, code_;
  ibv_exp_ec_mem mem_;
  ibv_exp_ec_mem* arguments_;
  ibv_exp_ec_comp comp_;
  ibv_exp_ec_comp* completion_;
  Bytes erasures_, data_updates_, code_updates_;
  std::uint8_t* first_map_;
  std::uint8_t* second_map_;
};

TEST_P(EcRefusalTest, WhatIsNotSpoiledIsTaken) {
  EXPECT_EQ(Go(), 0);
  EXPECT_EQ(ibv_exp_ec_poll(calc_, 100), waits() ? 0 : 1);
}

TEST_P(EcRefusalTest, Null) {
  EXPECT_EQ(With([&] { arguments_ = nullptr; }), -EINVAL);
  EXPECT_EQ(With([&] { mem_.data_blocks = nullptr; }), -EINVAL);
  EXPECT_EQ(With([&] { mem_.code_blocks = nullptr; }), -EINVAL);
  if (call() != Call::kEncode) {
    EXPECT_EQ(With([&] { first_map_ = nullptr; }), -EINVAL);
    EXPECT_EQ(With([&] { second_map_ = nullptr; }), -EINVAL);
  }
  if (!waits()) {
    EXPECT_EQ(With([&] { completion_ = nullptr; }), -EINVAL);
    EXPECT_EQ(With([&] { comp_.done = nullptr; }), -EINVAL);
  }
}

TEST_P(EcRefusalTest, NumbersOfEntriesThatDoNotAddUp) {
  for (const int by : {-1, 1, -100, 1000}) {
    EXPECT_EQ(With([&] { mem_.num_data_sge += by; }), -EINVAL) << by;
    EXPECT_EQ(With([&] { mem_.num_code_sge += by; }), -EINVAL) << by;
  }
  EXPECT_EQ(With([&] { mem_.num_data_sge = 0; }), -EINVAL);
  EXPECT_EQ(With([&] { mem_.num_code_sge = 0; }), -EINVAL);
}

TEST_P(EcRefusalTest, BlockSizesThatAreNoMultipleOf64Above0) {
  for (const int size : {0, -64, 1, 63, 100, kSize + 1}) {
    EXPECT_EQ(With([&] { mem_.block_size = size; }), -EINVAL) << size;
  }
}

// The driver gives this one with its sign.
TEST_P(EcRefusalTest, EntriesThatAreNotOfTheBlockSize) {
  for (const std::uint32_t length : {0U, 64U, kSize - 1U, kSize + 64U}) {
    EXPECT_EQ(With([&] { data_.back().length = length; }), EINVAL) << length;
    EXPECT_EQ(With([&] { code_.front().length = length; }), EINVAL) << length;
  }
  EXPECT_EQ(With([&] { mem_.block_size = 128; }), EINVAL);
}

TEST_P(EcRefusalTest, BlocksThatAreNowhere) {
  for (const std::uint64_t address : {std::uint64_t{0}, ~std::uint64_t{0} - kSize + 2}) {
    EXPECT_EQ(With([&] { Input().addr = address; }), -EINVAL) << address;
    EXPECT_EQ(With([&] { Output().addr = address; }), -EINVAL) << address;
  }
}

TEST_P(EcRefusalTest, AnOutputThatMeetsAnotherBlock) {
  for (const std::int64_t off : {-(kSize - 1), -64, 0, 1, kSize - 1}) {
    const auto near = [off](const ibv_sge& other) {
      return other.addr + static_cast<std::uint64_t>(off);
    };
    EXPECT_EQ(With([&] { Output().addr = near(Input()); }), -EINVAL) << off;
    if (call() == Call::kEncode) {
      EXPECT_EQ(With([&] { code_[1].addr = near(code_[2]); }), -EINVAL) << off;
    }
    if (call() == Call::kDecode) {
      EXPECT_EQ(With([&] { data_[1].addr = near(code_[2]); }), -EINVAL) << off << ", not read";
    }
    if (call() == Call::kUpdate && off != 0) {  // exactly in its own place it may be
      EXPECT_EQ(With([&] { code_[0].addr = near(data_[0]); }), -EINVAL) << off;
    }
  }
}

TEST_P(EcRefusalTest, AContextThatIsNullStrangeOrReleased) {
  ibv_exp_ec_calc* const own = calc_;
  ibv_exp_ec_calc stranger = {domain_.pd()};
  for (ibv_exp_ec_calc* const bad : {static_cast<ibv_exp_ec_calc*>(nullptr), &stranger}) {
    calc_ = bad;
    EXPECT_EQ(Go(), -EINVAL);
  }
  ibv_exp_dealloc_ec_calc(own);
  calc_ = own;
  EXPECT_EQ(Go(), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_poll(own, 1), -EINVAL);
  errno = 0;
  ibv_exp_dealloc_ec_calc(own);
  EXPECT_EQ(errno, EINVAL);
  calc_ = nullptr;
  EXPECT_EQ(stripe_.memory().bytes(), before_[0]);
}

TEST_P(EcRefusalTest, MoreThanFourAboveTheLimitUnderWay) {
  std::vector<ibv_exp_ec_comp> comps(8, comp_);  // Attributes: four may be under way
  for (ibv_exp_ec_comp& comp : comps) {
    ASSERT_EQ(ibv_exp_ec_encode_async(calc_, stripe_.mem(), &comp), 0);
  }
  errno = 0;
  EXPECT_EQ(Go(), -EOVERFLOW);
  EXPECT_EQ(errno, -EOVERFLOW);
  EXPECT_EQ(ibv_exp_ec_poll(calc_, 100), 8);
  EXPECT_EQ(Go(), 0);
}

INSTANTIATE_TEST_SUITE_P(Calls, EcRefusalTest,
                         ::testing::Combine(::testing::Values(Call::kEncode, Call::kDecode,
                                                              Call::kUpdate),
                                            ::testing::Bool()),
                         NameOf);

class EcRefusalOfCodesTest : public ::testing::Test {
 protected:
  // Whether a context of 6 + 3 blocks with w = 4, changed by `change`, is refused.
  template <class Change>
  bool Refused(Change change) {
    ibv_exp_ec_calc_init_attr attr = Attributes(6, 3, 4, matrix_);
    change(attr);
    errno = 0;
    ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
    if (calc != nullptr) ibv_exp_dealloc_ec_calc(calc);
    return calc == nullptr && errno == EINVAL;
  }
  bool Refused(int k, int m, int w) {
    return Refused([&](auto& attr) {
      attr.k = attr.max_data_sge = k;
      attr.m = attr.max_code_sge = m;
      attr.w = w;
    });
  }
  Domain domain_;
  Bytes matrix_ = Bytes(256 * 256, 1);
};

TEST_F(EcRefusalOfCodesTest, MoreBlocksThanElementsOfTheField) {
  for (const int w : {1, 2, 4, 8}) {
    const int elements = 1 << w;
    for (const int m : {1, elements / 2, elements - 1}) {
      EXPECT_FALSE(Refused(elements - m, m, w)) << m << " " << w;
      EXPECT_TRUE(Refused(elements - m + 1, m, w)) << m << " " << w;
    }
  }
  EXPECT_TRUE(Refused(1 << 30, 1 << 30, 8));
  EXPECT_TRUE(Refused(0x7fffffff, 0x7fffffff, 8));
}

TEST_F(EcRefusalOfCodesTest, CodesThatDoNotExist) {
  EXPECT_FALSE(Refused(6, 3, 4));
  for (const int none : {0, -1, -0x7fffffff - 1}) {
    EXPECT_TRUE(Refused(none, 3, 4));
    EXPECT_TRUE(Refused(6, none, 4));
  }
  for (const int w : {0, -8, 3, 5, 7, 9, 16, 32, 64}) EXPECT_TRUE(Refused(6, 3, w)) << w;
}

TEST_F(EcRefusalOfCodesTest, AttributesThatTheDriverRefuses) {
  EXPECT_TRUE(Refused([](auto& attr) { attr.comp_mask = 1U << 9; }));
  EXPECT_TRUE(Refused([](auto& attr) { attr.comp_mask = ~0U; }));
  for (const int off : {-1, 1}) {
    EXPECT_TRUE(Refused([off](auto& attr) { attr.max_data_sge += off; }));
    EXPECT_TRUE(Refused([off](auto& attr) { attr.max_code_sge += off; }));
  }
  EXPECT_TRUE(Refused([](auto& attr) { attr.encode_matrix = nullptr; }));
  EXPECT_FALSE(Refused([](auto& attr) { attr.max_inflight_calcs = 1024; }));
  EXPECT_TRUE(Refused([](auto& attr) { attr.max_inflight_calcs = 1025; }));
  // All fields are read whatever comp_mask says; a hint is only that.
  EXPECT_FALSE(Refused([](auto& attr) { attr.comp_mask = 0; }));
  EXPECT_FALSE(Refused([](auto& attr) { attr.affinity_hint = -77; }));
  EXPECT_FALSE(Refused([](auto& attr) { attr.max_inflight_calcs = 0; }));
}

TEST_F(EcRefusalOfCodesTest, Null) {
  ibv_exp_ec_calc_init_attr attr = Attributes(6, 3, 4, matrix_);
  errno = 0;
  EXPECT_EQ(ibv_exp_alloc_ec_calc(nullptr, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_exp_alloc_ec_calc(domain_.pd(), nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  ibv_exp_dealloc_ec_calc(nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_exp_ec_poll(nullptr, 1), -EINVAL);
}

TEST_F(EcRefusalOfCodesTest, DecodingMoreErasuresThanCodeBlocks) {
  Bytes matrix = SlowField(4).CauchyMatrix(4, 2);
  ibv_exp_ec_calc_init_attr attr = Attributes(4, 2, 4, matrix);
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
  Stripe stripe(domain_.pd(), 4, 2, kSize);
  Bytes decode(64, 1);
  for (Bytes erasures : {Bytes{1, 1, 0, 0, 0, 1}, Bytes{0, 0, 0, 1, 1, 1}, Bytes(6, 0xff)}) {
    EXPECT_EQ(ibv_exp_ec_decode_sync(calc, stripe.mem(), erasures.data(), decode.data()), -EINVAL);
  }
  ibv_exp_dealloc_ec_calc(calc);
}

// m + 2 * (changed blocks) >= k.
TEST_F(EcRefusalOfCodesTest, UpdatesWhereEncodingReadsNoMore) {
  for (const int w : {4, 8}) {
    for (const int k : {6, 7, 8}) {
      Bytes matrix = SlowField(w).CauchyMatrix(k, 3);
      ibv_exp_ec_calc_init_attr attr = Attributes(k, 3, w, matrix);
      ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
      for (int changed = 1; changed <= 3; ++changed) {
        Stripe update(domain_.pd(), 1 + 2 * changed, 1, kSize);
        Bytes data_updates(static_cast<std::size_t>(k), 0);
        for (int i = 0; i < changed; ++i) data_updates[static_cast<std::size_t>(i)] = 1;
        Bytes code_updates = {0, 0, 1};
        EXPECT_EQ(
            ibv_exp_ec_update_sync(calc, update.mem(), data_updates.data(), code_updates.data()),
            3 + 2 * changed < k ? 0 : -EINVAL)
            << k << " " << changed;
      }
      ibv_exp_dealloc_ec_calc(calc);
    }
  }
}

// No code of so few blocks has a change that reads less than encoding.
TEST_F(EcRefusalOfCodesTest, EveryUpdateOverTheFieldsOfTwoAndFourElements) {
  for (const int w : {1, 2}) {
    for (int k = 1; k < 1 << w; ++k) {
      for (int m = 1; k + m <= 1 << w; ++m) {
        Bytes matrix(static_cast<std::size_t>(k * m), 1);
        ibv_exp_ec_calc_init_attr attr = Attributes(k, m, w, matrix);
        ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
        ASSERT_NE(calc, nullptr);
        Stripe update(domain_.pd(), 3, 1, kSize);
        Bytes data_updates(static_cast<std::size_t>(k), 0);
        Bytes code_updates(static_cast<std::size_t>(m), 0);
        data_updates[0] = code_updates[0] = 1;
        EXPECT_EQ(
            ibv_exp_ec_update_sync(calc, update.mem(), data_updates.data(), code_updates.data()),
            -EINVAL);
        ibv_exp_dealloc_ec_calc(calc);
      }
    }
  }
}

TEST_F(EcRefusalOfCodesTest, UpdatesOfNothingOrOfOtherCountsThanListed) {
  for (const int w : {4, 8}) {
    Bytes matrix = SlowField(w).CauchyMatrix(kData, kCode);
    ibv_exp_ec_calc_init_attr attr = Attributes(kData, kCode, w, matrix);
    ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
    Stripe update(domain_.pd(), 3, 1, kSize);
    Bytes data(kData, 0);
    Bytes code(kCode, 0);
    const auto run = [&] {
      return ibv_exp_ec_update_sync(calc, update.mem(), data.data(), code.data());
    };
    EXPECT_EQ(run(), -EINVAL);
    code[1] = 1;
    EXPECT_EQ(run(), -EINVAL);
    data[4] = 1;
    EXPECT_EQ(run(), 0);
    code[1] = 0;
    EXPECT_EQ(run(), -EINVAL);
    code[1] = code[2] = 1;
    EXPECT_EQ(run(), -EINVAL);
    code[2] = 0;
    data[5] = 1;
    EXPECT_EQ(run(), -EINVAL);
    ibv_exp_dealloc_ec_calc(calc);
  }
}

TEST_F(EcRefusalOfCodesTest, RegistrationWithWhatIsNotKnown) {
  ibv_exp_reg_mr_in in = {};
  in.pd = domain_.pd();
  in.addr = matrix_.data();
  in.length = matrix_.size();
  in.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE;
  const auto refused = [&](auto change) {
    ibv_exp_reg_mr_in changed = in;
    change(changed);
    errno = 0;
    ibv_mr* const region = ibv_exp_reg_mr(&changed);
    if (region != nullptr) ibv_dereg_mr(region);
    return region == nullptr && errno == EINVAL;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& changed) { changed.pd = nullptr; }));
  EXPECT_TRUE(refused([](auto& changed) { changed.comp_mask = 1; }));
  EXPECT_TRUE(refused([](auto& changed) { changed.create_flags = 1; }));
  EXPECT_TRUE(refused([](auto& changed) { changed.exp_access |= std::uint64_t{1} << 63; }));
  errno = 0;
  EXPECT_EQ(ibv_exp_reg_mr(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace ring::ec_verbs
