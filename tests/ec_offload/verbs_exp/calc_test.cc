// What a calculation gives, in the conventions of the verbs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <tuple>

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

TEST_F(EcCalcTest, TakesCodesOfAsManyBlocksAsTheFieldHasElements) {
  Coded coded(domain_, 200, 56, 8, 3, 64);
  ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
  EXPECT_EQ(coded.stripe.Block(200 + 55), coded.Parity(55));
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

TEST_F(EcCalcTest, IgnoresBitsOfADecodeMatrixAboveTheField) {
  for (const int w : {1, 2, 4}) {
    Coded coded(domain_, w == 1 ? 1 : 2, w == 1 ? 1 : 2, w);
    ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
    const Bytes whole = coded.stripe.memory().bytes();
    Bytes erasures(static_cast<std::size_t>(coded.k + coded.m), 0);
    erasures[0] = 1;
    Bytes decode = DecodeColumns(coded.field, coded.k, coded.m, coded.matrix, erasures);
    for (std::uint8_t& factor : decode) factor = static_cast<std::uint8_t>(factor | 0xa0);
    coded.stripe.Set(0, Bytes(kSize, 0));
    ASSERT_EQ(
        ibv_exp_ec_decode_sync(coded.calc, coded.stripe.mem(), erasures.data(), decode.data()), 0);
    EXPECT_EQ(coded.stripe.memory().bytes(), whole);
  }
}

TEST_F(EcCalcTest, TheMatrixOfAContextIsTheCallersAgainAtOnce) {
  Coded coded(domain_, 4, 2, 8);
  const Bytes matrix = coded.matrix;
  std::fill(coded.matrix.begin(), coded.matrix.end(), 0);
  ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
  EXPECT_EQ(coded.stripe.Block(5), Combine(coded.field, coded.Data(), matrix, 2, 1));
}

class EcUpdateTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static int w() { return std::get<0>(GetParam()); }
  // By the synchronous call, or the asynchronous one.
  static int Update(ibv_exp_ec_calc* calc, ibv_exp_ec_mem* mem, Bytes& data, Bytes& code) {
    if (std::get<1>(GetParam())) return ibv_exp_ec_update_sync(calc, mem, data.data(), code.data());
    struct Told {
      ibv_exp_ec_comp comp;
      std::promise<int> status;
    } told;
    told.comp.done = [](ibv_exp_ec_comp* comp) {
      reinterpret_cast<Told*>(comp)->status.set_value(comp->status);
    };
    const int error = ibv_exp_ec_update_async(calc, mem, data.data(), code.data(), &told.comp);
    return error != 0 ? error : told.status.get_future().get();
  }
  // A map of `size` blocks with `count` of them set, by any byte that is not 0.
  static Bytes Map(SeededRandom& random, int size, int count) {
    Bytes map(static_cast<std::size_t>(size), 0);
    while (count > 0) {
      std::uint8_t& byte = map[random.Below(map.size())];
      if (byte != 0) continue;
      byte = static_cast<std::uint8_t>(1 + random.Below(255));
      --count;
    }
    return map;
  }
  Domain domain_;
};

// Old parities first, then old and new of each data block; in place or elsewhere.
TEST_P(EcUpdateTest, GivesTheParityOfTheNewData) {
  SeededRandom random(5);
  for (int round = 0; round < 60; ++round) {
    const bool in_place = round % 2 == 0;
    const int m = 1 + static_cast<int>(random.Below(4));
    const int k = m + 3 + static_cast<int>(random.Below(5));
    const int changed = 1 + static_cast<int>(random.Below(static_cast<std::size_t>(k - m - 1) / 2));
    const int outputs = 1 + static_cast<int>(random.Below(static_cast<std::size_t>(m)));
    Coded coded(domain_, k, m, w(), random.Next64());
    ASSERT_EQ(ibv_exp_ec_encode_sync(coded.calc, coded.stripe.mem()), 0);
    Bytes data_updates = Map(random, k, changed);
    Bytes code_updates = Map(random, m, outputs);
    Stripe update(domain_.pd(), outputs + 2 * changed, outputs, kSize);
    update.Fill(random);
    int at = 0;
    for (int j = 0; j < m; ++j) {
      if (code_updates[static_cast<std::size_t>(j)] != 0)
        update.Set(at++, coded.stripe.Block(k + j));
    }
    for (int i = 0; i < k; ++i) {
      if (data_updates[static_cast<std::size_t>(i)] == 0) continue;
      update.Set(at, coded.stripe.Block(i));
      coded.stripe.Set(i, update.Block(at + 1));
      at += 2;
    }
    for (std::size_t o = 0; in_place && o < update.code().size(); ++o)
      update.code()[o] = update.data()[o];
    ASSERT_EQ(Update(coded.calc, update.mem(), data_updates, code_updates), 0);
    int output = in_place ? 0 : outputs + 2 * changed;
    for (int j = 0; j < m; ++j) {
      if (code_updates[static_cast<std::size_t>(j)] == 0) continue;
      ASSERT_EQ(update.Block(output++), coded.Parity(j)) << "k=" << k << " m=" << m << " j=" << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, EcUpdateTest,
                         ::testing::Combine(::testing::Values(4, 8), ::testing::Bool()));

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
  // The field mask comes with the other capabilities, or not at all.
  attr = {};
  attr.comp_mask = IBV_EXP_DEVICE_ATTR_EC_GF_BASE;
  ASSERT_EQ(ibv_exp_query_device(domain_.context(), &attr), 0);
  EXPECT_EQ(attr.comp_mask, 0U);
  EXPECT_EQ(attr.ec_w_mask, 0U);
  EXPECT_EQ(ibv_exp_query_device(domain_.context(), nullptr), EINVAL);
  EXPECT_EQ(ibv_exp_query_device(nullptr, &attr), EINVAL);
}

}  // namespace
}  // namespace ring::ec_verbs
