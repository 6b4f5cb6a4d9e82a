// Every result of libecoffload against Debian's Jerasure and GF-Complete.
#include <algorithm>
#include <vector>

#include "ec_offload/coding_matrix.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/eco/eco_blocks.h"
#include "tests/ec_offload/eco/jerasure_oracle.h"
#include "tests/support/random_seed.h"

namespace ring::ec_offload {
namespace {

void ExpectMatrixIsJerasures(int k, int m, int w, bool vandermonde) {
  const Field field = *FieldOfWidth(w);
  const auto make = vandermonde ? VandermondeCoding : CauchyCoding;
  const auto ours = make(field, static_cast<std::size_t>(k), static_cast<std::size_t>(m));
  ASSERT_TRUE(ours.ok()) << ours.status();
  const JerasureMatrixPointer theirs = JerasureMatrix(k, m, w, vandermonde);
  ASSERT_NE(theirs, nullptr);
  for (std::size_t i = 0; i < ours->elements().size(); ++i) {
    ASSERT_EQ(ours->elements()[i], theirs.get()[i])
        << "k=" << k << " m=" << m << " w=" << w << " vandermonde=" << vandermonde << " at " << i;
  }
}

TEST(EcoConformance, EveryMatrixOfNibblesIsJerasures) {
  for (int k = 1; k < 16; ++k) {
    for (int m = 1; k + m <= 16; ++m) {
      for (const bool vandermonde : {false, true})
        ASSERT_NO_FATAL_FAILURE(ExpectMatrixIsJerasures(k, m, 4, vandermonde));
    }
  }
}

TEST(EcoConformance, MatricesOfBytesAreJerasuresUpToTheWidest) {
  for (int k = 1; k <= 20; ++k) {
    for (int m = 1; m <= 8; ++m) {
      for (const bool vandermonde : {false, true})
        ASSERT_NO_FATAL_FAILURE(ExpectMatrixIsJerasures(k, m, 8, vandermonde));
    }
  }
  for (const auto& [k, m] : {std::pair{255, 1}, {1, 255}, {128, 128}, {200, 56}, {250, 4}}) {
    for (const bool vandermonde : {false, true})
      ASSERT_NO_FATAL_FAILURE(ExpectMatrixIsJerasures(k, m, 8, vandermonde));
  }
}

// A stripe of the API: encoded, compared, then up to m blocks lost and decoded, a few times.
void CompareStripe(SeededRandom& random, int k, int m, int w, bool vandermonde, int size) {
  SCOPED_TRACE(::testing::Message() << "k=" << k << " m=" << m << " w=" << w
                                    << " vandermonde=" << vandermonde << " size=" << size);
  eco_encoder* const encoder = mlx_eco_encoder_init_w(k, m, vandermonde, w);
  eco_decoder* const decoder = mlx_eco_decoder_init_w(k, m, vandermonde, w);
  ASSERT_NE(encoder, nullptr);
  ASSERT_NE(decoder, nullptr);
  EcoBlocks blocks(random, k, m, size);
  std::vector<std::vector<std::uint8_t>> all = blocks.CopyAll();
  const auto parities =
      JerasureEncode(k, m, w, vandermonde, blocks.data, static_cast<std::size_t>(size));
  std::copy(parities.begin(), parities.end(), all.begin() + k);
  ASSERT_EQ(blocks.Encode(encoder), 0);
  ASSERT_EQ(blocks.CopyAll(), all);
  for (int round = 0; round < 4; ++round) {
    const int count = static_cast<int>(random.Below(static_cast<std::size_t>(m) + 1));
    const std::vector<int> erased = RandomIndices(random, count, k + m);
    for (const int index : erased) blocks.Spoil(index);
    ASSERT_EQ(blocks.Decode(decoder, erased), 0);
    ASSERT_EQ(blocks.CopyAll(), all);
  }
  EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
  EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
}

TEST(EcoConformance, RandomStripesOfNibblesEqualJerasuresMatrixByGfComplete) {
  SeededRandom random(testing::SeedFor("nibbles"));
  for (int stripe = 0; stripe < 300; ++stripe) {
    const int k = 1 + static_cast<int>(random.Below(15));
    const int m = 1 + static_cast<int>(random.Below(static_cast<std::size_t>(16 - k)));
    const int size = 1 + static_cast<int>(random.Below(stripe % 3 == 0 ? 20000 : 300));
    ASSERT_NO_FATAL_FAILURE(CompareStripe(random, k, m, 4, stripe % 2 == 0, size));
  }
}

TEST(EcoConformance, RandomStripesOfBytesEqualJerasures) {
  SeededRandom random(testing::SeedFor("bytes"));
  for (int stripe = 0; stripe < 300; ++stripe) {
    const int k = 1 + static_cast<int>(random.Below(20));
    const int m = 1 + static_cast<int>(random.Below(8));
    const int size = 1 + static_cast<int>(random.Below(stripe % 3 == 0 ? 20000 : 300));
    ASSERT_NO_FATAL_FAILURE(CompareStripe(random, k, m, 8, stripe % 2 == 0, size));
  }
  ASSERT_NO_FATAL_FAILURE(CompareStripe(random, 128, 128, 8, true, 131));
  ASSERT_NO_FATAL_FAILURE(CompareStripe(random, 1, 255, 8, false, 65));
  ASSERT_NO_FATAL_FAILURE(CompareStripe(random, 255, 1, 8, true, 1));
}

TEST(EcoConformance, EveryBlockSizeAroundThe64BytesOfTheHardwareIsRight) {
  SeededRandom random(testing::SeedFor("sizes"));
  for (const int w : {4, 8}) {
    for (int size = 1; size <= 300; ++size)
      ASSERT_NO_FATAL_FAILURE(CompareStripe(random, 6, 3, w, size % 2 == 0, size));
  }
}

TEST(EcoConformance, EveryErasureOfASmallCodeIsRepaired) {
  SeededRandom random(testing::SeedFor("erasures"));
  for (const int w : {4, 8}) {
    eco_encoder* const encoder = mlx_eco_encoder_init_w(5, 4, 1, w);
    eco_decoder* const decoder = mlx_eco_decoder_init_w(5, 4, 1, w);
    EcoBlocks blocks(random, 5, 4, 100);
    ASSERT_EQ(blocks.Encode(encoder), 0);
    const auto all = blocks.CopyAll();
    for (unsigned mask = 0; mask < 512; ++mask) {
      std::vector<int> erased;
      for (int index = 8; index >= 0; --index) {  // any order will do
        if (((mask >> index) & 1) != 0) erased.push_back(index);
      }
      if (erased.size() > 4) continue;
      for (const int index : erased) blocks.Spoil(index);
      ASSERT_EQ(blocks.Decode(decoder, erased), 0);
      ASSERT_EQ(blocks.CopyAll(), all) << "mask=" << mask;
    }
    EXPECT_EQ(mlx_eco_encoder_release(encoder), 0);
    EXPECT_EQ(mlx_eco_decoder_release(decoder), 0);
  }
}

}  // namespace
}  // namespace ring::ec_offload
