// What a calculation gives, in the conventions of the verbs, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

namespace ring::ec_verbs {
namespace {

constexpr int kSize = 192;

// A calculation context over a stripe of random blocks.
struct Coded {
  Coded(const Domain& domain, int k_of, int m_of, int w, std::uint64_t seed = 1, int size = kSize)
      : field(w),
        k(k_of),
        m(m_of),
        matrix(field.CauchyMatrix(k, m)),
        attr(Attributes(k, m, w, matrix)),
        calc(ibv_exp_alloc_ec_calc(domain.pd(), &attr)),
        stripe(domain.pd(), k, m, size) {
    SeededRandom random(seed);
    stripe.Fill(random);
    RING_CHECK(calc != nullptr);
  }
  ~Coded() { ibv_exp_dealloc_ec_calc(calc); }
  std::vector<Bytes> Data() {
    std::vector<Bytes> blocks;
    for (int i = 0; i < k; ++i) blocks.push_back(stripe.Block(i));
    return blocks;
  }
  Bytes Parity(int j) {
    return Combine(field, Data(), matrix, static_cast<std::size_t>(m), static_cast<std::size_t>(j));
  }

  SlowField field;
  int k;
  int m;
  Bytes matrix;
  ibv_exp_ec_calc_init_attr attr;
  ibv_exp_ec_calc* calc;
  Stripe stripe;
};

class EcCalcTest : public ::testing::Test {
 protected:
  Domain domain_;
};

class EcCalcWidthTest : public ::testing::TestWithParam<int> {
 protected:
  // Random k and m with k + m <= 2^w.
  void Choose(SeededRandom& random, int* k, int* m) const {
    const int sum_max = std::min(1 << GetParam(), 20);
    const int sum = 2 + static_cast<int>(random.Next64() % static_cast<unsigned>(sum_max - 1));
    *k = 1 + static_cast<int>(random.Next64() % static_cast<unsigned>(sum - 1));
    *m = sum - *k;
  }
  Domain domain_;
};

TEST_P(EcCalcWidthTest, EncodesAsTheDefinitionOfTheCode) {
  SeededRandom random(17);
  for (int round = 0; round < 20; ++round) {
    int k = 0;
    int m = 0;
    Choose(random, &k, &m);
    Coded coded(domain_, k, m, GetParam(), random.Next64());
    ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
    for (int j = 0; j < m; ++j) ASSERT_EQ(coded.stripe.Block(k + j), coded.Parity(j));
  }
}

TEST_P(EcCalcWidthTest, DecodesWhatTheDefinitionOfTheCodeHadThere) {
  SeededRandom random(18);
  for (int round = 0; round < 40; ++round) {
    int k = 0;
    int m = 0;
    Choose(random, &k, &m);
    Coded coded(domain_, k, m, GetParam(), random.Next64());
    ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
    const Bytes whole = coded.stripe.memory().bytes();
    Bytes erasures(static_cast<std::size_t>(k + m), 0);
    const auto count = 1 + random.Next64() % static_cast<unsigned>(m);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto block = random.Next64() % static_cast<unsigned>(k + m);
      // Any byte that is not 0 means erased.
      erasures[block] = static_cast<std::uint8_t>(1 + random.Next64() % 255);
      coded.stripe.Set(static_cast<int>(block), Bytes(kSize, 0xaa));
    }
    Bytes decode = DecodeColumns(coded.field, k, m, coded.matrix, erasures);
    ASSERT_EQ(
        ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), erasures.data(), decode.data()), 0);
    ASSERT_EQ(coded.stripe.memory().bytes(), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, EcCalcWidthTest, ::testing::Values(1, 2, 4, 8));

TEST_F(EcCalcTest, TakesCodesUpTo256Blocks) {
  Coded coded(domain_, 200, 55, 8, 3, 64);
  ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
  EXPECT_EQ(coded.stripe.Block(200 + 54), coded.Parity(54));
}

// Upstream's decoder test leaves garbage in columns that it does not use.
TEST_F(EcCalcTest, IgnoresBitsOfAMatrixAboveTheField) {
  Coded clean(domain_, 6, 3, 4);
  ASSERT_EQ(ibv_exp_ec_encode_sync(clean.calc, clean.stripe.mem()), 0);
  Bytes dirty = clean.matrix;
  for (std::uint8_t& factor : dirty) factor = static_cast<std::uint8_t>(factor | 0xf0);
  ibv_exp_ec_calc_init_attr attr = Attributes(6, 3, 4, dirty);
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
  const Bytes expected = clean.stripe.Block(8);
  clean.stripe.Set(8, Bytes(kSize, 0));
  ASSERT_EQ(ibv_exp_ec_encode_sync(calc, clean.stripe.mem()), 0);
  EXPECT_EQ(clean.stripe.Block(8), expected);
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcCalcTest, MatricesAreTheCallersAgainAtOnce) {
  Coded coded(domain_, 4, 2, 8);
  const Bytes matrix = coded.matrix;
  std::fill(coded.matrix.begin(), coded.matrix.end(), 0);
  ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
  EXPECT_EQ(coded.stripe.Block(5), Combine(coded.field, coded.Data(), matrix, 2, 1));
}

// Old parities first, then old and new of each data block; in place or elsewhere.
TEST_F(EcCalcTest, UpdateGivesTheParityOfTheNewData) {
  for (const bool in_place : {true, false}) {
    Coded coded(domain_, 10, 3, 8, 5);
    ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
    Stripe update(domain_.pd(), 2 + 4, 2, kSize);
    SeededRandom random(9);
    update.Fill(random);
    update.Set(0, coded.stripe.Block(10));  // parities 0 and 2
    update.Set(1, coded.stripe.Block(12));
    const int changed[] = {3, 7};
    for (int i = 0; i < 2; ++i) {
      update.Set(2 + 2 * i, coded.stripe.Block(changed[i]));
      coded.stripe.Set(changed[i], update.Block(3 + 2 * i));
    }
    if (in_place) {
      update.code()[0] = update.data()[0];
      update.code()[1] = update.data()[1];
    }
    Bytes data_updates(10, 0);
    data_updates[3] = data_updates[7] = 1;
    Bytes code_updates = {1, 0, 200};
    ASSERT_EQ(
        ibv_exp_ec_update_sync(coded.calc, update.mem(), data_updates.data(), code_updates.data()),
        0);
    const int at = in_place ? 0 : 6;
    EXPECT_EQ(update.Block(at), coded.Parity(0));
    EXPECT_EQ(update.Block(at + 1), coded.Parity(2));
  }
}

TEST_F(EcCalcTest, UpdateIsRefusedWhereEncodingReadsLess) {
  Coded coded(domain_, 5, 3, 8);
  Stripe update(domain_.pd(), 3, 1, kSize);
  Bytes data_updates = {1, 0, 0, 0, 0};
  Bytes code_updates = {1, 0, 0};
  // 3 + 2 * 1 >= 5.
  EXPECT_EQ(
      ibv_exp_ec_update_sync(coded.calc, update.mem(), data_updates.data(), code_updates.data()),
      -EINVAL);
}

TEST_F(EcCalcTest, UpdateRefusesEmptyMapsWrongCountsAndNull) {
  Coded coded(domain_, 10, 3, 8);
  Stripe update(domain_.pd(), 3, 1, kSize);
  Bytes data(10, 0);
  Bytes code(3, 0);
  const auto run = [&] {
    return ibv_exp_ec_update_sync(coded.calc, update.mem(), data.data(), code.data());
  };
  EXPECT_EQ(run(), -EINVAL);
  code[1] = 1;
  EXPECT_EQ(run(), -EINVAL);
  data[4] = 1;
  EXPECT_EQ(run(), 0);
  data[5] = 1;
  EXPECT_EQ(run(), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_update_sync(coded.calc, update.mem(), nullptr, code.data()), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_update_sync(coded.calc, update.mem(), data.data(), nullptr), -EINVAL);
}

TEST_F(EcCalcTest, AllocationRefusesWhatTheDriverRefuses) {
  Bytes matrix(256, 1);
  const auto refused = [&](auto change) {
    ibv_exp_ec_calc_init_attr attr = Attributes(6, 3, 4, matrix);
    change(attr);
    errno = 0;
    ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
    if (calc != nullptr) ibv_exp_dealloc_ec_calc(calc);
    return calc == nullptr && errno == EINVAL;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& attr) { attr.comp_mask = 1U << 9; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.k = attr.max_data_sge = 0; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.m = attr.max_code_sge = -1; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.w = 3; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.w = 16; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.max_data_sge = 7; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.max_code_sge = 2; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.encode_matrix = nullptr; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.max_inflight_calcs = 1025; }));
  // k + m <= 2^w
  EXPECT_FALSE(refused([](auto& attr) { attr.k = attr.max_data_sge = 13; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.k = attr.max_data_sge = 14; }));
  EXPECT_TRUE(refused([](auto& attr) { attr.w = 2; }));
  errno = 0;
  ibv_exp_ec_calc_init_attr attr = Attributes(6, 3, 4, matrix);
  EXPECT_EQ(ibv_exp_alloc_ec_calc(nullptr, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_exp_alloc_ec_calc(domain_.pd(), nullptr), nullptr);
}

TEST_F(EcCalcTest, EncodeRefusesListsThatDoNotAddUp) {
  Coded coded(domain_, 4, 2, 4);
  const auto with = [&](auto change) {
    const ibv_exp_ec_mem mem = *coded.stripe.mem();
    const std::vector<ibv_sge> data = coded.stripe.data();
    const std::vector<ibv_sge> code = coded.stripe.code();
    change(*coded.stripe.mem());
    const int result = ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem());
    coded.stripe.data() = data;
    coded.stripe.code() = code;
    *coded.stripe.mem() = mem;
    coded.stripe.mem()->data_blocks = coded.stripe.data().data();
    coded.stripe.mem()->code_blocks = coded.stripe.code().data();
    return result;
  };
  EXPECT_EQ(with([](auto&) {}), 0);
  EXPECT_EQ(with([](auto& mem) { mem.num_data_sge = 3; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.num_data_sge = -4; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.num_code_sge = 3; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.data_blocks = nullptr; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.code_blocks = nullptr; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.block_size = 0; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.block_size = -64; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.block_size = 100; }), -EINVAL);
  // The driver gives this one with its sign.
  EXPECT_EQ(with([](auto& mem) { mem.data_blocks[3].length = 128; }), EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.code_blocks[0].length = 256; }), EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.block_size = 128; }), EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.data_blocks[0].addr = 0; }), -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.code_blocks[1].addr = mem.data_blocks[1].addr + 64; }),
            -EINVAL);
  EXPECT_EQ(with([](auto& mem) { mem.code_blocks[1].addr = mem.code_blocks[0].addr; }), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, nullptr), -EINVAL);
}

TEST_F(EcCalcTest, DecodeRefusesMoreErasuresThanCodeBlocksAndNull) {
  Coded coded(domain_, 4, 2, 4);
  Bytes erasures = {1, 1, 0, 0, 0, 1};
  Bytes matrix(64, 1);
  EXPECT_EQ(ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), erasures.data(), matrix.data()),
            -EINVAL);
  EXPECT_EQ(ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), nullptr, matrix.data()),
            -EINVAL);
  EXPECT_EQ(ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), erasures.data(), nullptr),
            -EINVAL);
}

// Of 4 + 2 blocks with one erased, one that is left is not read; it must not be written either.
TEST_F(EcCalcTest, DecodeRefusesAnOutputThatMeetsABlockItDoesNotRead) {
  Coded coded(domain_, 4, 2, 4);
  const Bytes before = coded.stripe.memory().bytes();
  Bytes erasures = {0, 1, 0, 0, 0, 0};
  Bytes matrix(4, 1);
  for (const std::uint64_t off : {std::uint64_t{0}, std::uint64_t{64}}) {
    coded.stripe.data()[1].addr = coded.stripe.code()[1].addr - off;
    EXPECT_EQ(
        ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), erasures.data(), matrix.data()),
        -EINVAL);
  }
  EXPECT_EQ(coded.stripe.memory().bytes(), before);
}

TEST_F(EcCalcTest, DecodeOfNoErasureSucceedsAndWritesNothing) {
  Coded coded(domain_, 4, 2, 4);
  const Bytes before = coded.stripe.memory().bytes();
  Bytes erasures(6, 0);
  Bytes matrix(64, 1);
  EXPECT_EQ(ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), erasures.data(), matrix.data()),
            0);
  EXPECT_EQ(coded.stripe.memory().bytes(), before);
}

TEST_F(EcCalcTest, BlocksOutsideOfRegisteredMemoryFailTheCalculation) {
  Coded coded(domain_, 4, 2, 4);
  const Bytes before = coded.stripe.memory().bytes();
  coded.stripe.data()[2].lkey += 12345;
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), IBV_EXP_EC_CALC_FAIL);
  coded.stripe.data()[2].lkey -= 12345;
  coded.stripe.code()[1].addr += 64;
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(coded.stripe.memory().bytes(), before);
}

TEST_F(EcCalcTest, KeysOfAnotherDomainAndReadOnlyOutputsFailTheCalculation) {
  Coded coded(domain_, 4, 2, 4);
  Domain other;
  {
    Memory foreign(other.pd(), kSize);
    const ibv_sge own = coded.stripe.data()[0];
    coded.stripe.data()[0] = foreign.Sge(0, kSize);
    EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), IBV_EXP_EC_CALC_FAIL);
    coded.stripe.data()[0] = own;
  }
  Memory read_only(domain_.pd(), kSize, 0);
  coded.stripe.code()[0] = read_only.Sge(0, kSize);
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), IBV_EXP_EC_CALC_FAIL);
  coded.stripe.code()[0] = coded.stripe.memory().Sge(4 * kSize, kSize);
  coded.stripe.data()[0] = read_only.Sge(0, kSize);
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
}

TEST_F(EcCalcTest, AReleasedContextIsRefused) {
  auto coded = std::make_unique<Coded>(domain_, 4, 2, 4);
  ibv_exp_ec_calc* const calc = coded->calc;
  ibv_exp_dealloc_ec_calc(calc);
  EXPECT_EQ(ibv_exp_ec_encode_sync(calc, coded->stripe.mem()), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_sync(nullptr, coded->stripe.mem()), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_poll(calc, 1), -EINVAL);
  errno = 0;
  ibv_exp_dealloc_ec_calc(calc);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(EcCalcTest, ADomainWithAContextIsBusy) {
  Coded coded(domain_, 4, 2, 4);
  EXPECT_EQ(ibv_dealloc_pd(domain_.pd()), EBUSY);
}

TEST_F(EcCalcTest, OneKeyForTheWholeAddressSpace) {
  ibv_exp_reg_mr_in in = {};
  in.pd = domain_.pd();
  in.length = SIZE_MAX;
  in.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_ON_DEMAND;
  ibv_mr* const mr = ibv_exp_reg_mr(&in);
  ASSERT_NE(mr, nullptr);
  Coded coded(domain_, 4, 2, 4);
  for (ibv_sge& sge : coded.stripe.data()) sge.lkey = mr->lkey;
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), IBV_EXP_EC_CALC_FAIL);
  in.create_flags = 1;
  EXPECT_EQ(ibv_exp_reg_mr(&in), nullptr);
}

TEST_F(EcCalcTest, CapabilitiesAreFilledAsAsked) {
  ibv_exp_device_attr attr = {};
  attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EC_CAPS;
  ASSERT_EQ(ibv_exp_query_device(domain_.context(), &attr), 0);
  EXPECT_EQ(attr.comp_mask, IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EC_CAPS);
  EXPECT_NE(attr.exp_device_cap_flags & IBV_EXP_DEVICE_EC_OFFLOAD, 0U);
  EXPECT_EQ(attr.ec_caps.max_ec_calc_inflight_calcs, 1024U);
  EXPECT_EQ(attr.ec_caps.max_ec_data_vector_count, 255U);
  EXPECT_EQ(attr.phys_port_cnt, 1);
  attr.comp_mask = static_cast<std::uint32_t>(IBV_EXP_DEVICE_ATTR_RESERVED - 1);
  ASSERT_EQ(ibv_exp_query_device(domain_.context(), &attr), 0);
  EXPECT_EQ(attr.comp_mask, IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EC_CAPS |
                                IBV_EXP_DEVICE_ATTR_EC_GF_BASE);
  EXPECT_EQ(attr.ec_w_mask, 0x8bU);
  EXPECT_EQ(ibv_exp_query_device(domain_.context(), nullptr), EINVAL);
}

}  // namespace
}  // namespace ring::ec_verbs
