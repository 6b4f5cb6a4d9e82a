#include "srs/generator.h"

#include "gtest/gtest.h"
#include "srs/layout.h"

namespace ring::srs {
namespace {

using ec_offload::Matrix;

TEST(Generator, ExpandsToEqn5ForSrs213) {
  const auto generator = MakeGenerator(2, 1);
  ASSERT_TRUE(generator.ok());
  EXPECT_EQ(*generator, (Matrix{{1, 1}}));
  EXPECT_EQ(ExpandedMatrix(*generator, 3), (Matrix{{1, 0, 0, 0, 0, 0},
                                                   {0, 1, 0, 0, 0, 0},
                                                   {0, 0, 1, 0, 0, 0},
                                                   {0, 0, 0, 1, 0, 0},
                                                   {0, 0, 0, 0, 1, 0},
                                                   {0, 0, 0, 0, 0, 1},
                                                   {1, 0, 0, 1, 0, 0},
                                                   {0, 1, 0, 0, 1, 0},
                                                   {0, 0, 1, 0, 0, 1}}));
}

TEST(Generator, RowZeroIsAllOnesAndEveryMinorIsInvertibleS9) {
  for (std::uint32_t k = 1; k <= 16; ++k) {
    for (std::uint32_t m = 1; m <= 4; ++m) {
      const auto generator = MakeGenerator(k, m);
      ASSERT_TRUE(generator.ok()) << generator.status();
      for (std::uint32_t c = 0; c < k; ++c) EXPECT_EQ(generator->At(0, c), 1);
      EXPECT_TRUE(ec_offload::AllMinorsInvertible(*generator));
    }
  }
}

// A published memgest's bytes depend on these numbers: they never change.
TEST(Generator, CoefficientsAreFixed) {
  const auto generator = MakeGenerator(3, 2);
  ASSERT_TRUE(generator.ok());
  Matrix expected{{1, 1, 1}};
  std::vector<ec_offload::gf256::Element> second;
  for (unsigned c = 0; c < 3; ++c) {
    second.push_back(ec_offload::gf256::Divide(static_cast<std::uint8_t>(3 ^ c),
                                               static_cast<std::uint8_t>(4 ^ c)));
  }
  expected.AppendRow(second);
  EXPECT_EQ(*generator, expected);
}

TEST(Generator, FirstParitiesAreSharedByCodesOfOneK) {
  const auto small = MakeGenerator(5, 2);
  const auto large = MakeGenerator(5, 4);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(large->SelectRows({0, 1}), *small);
}

TEST(Generator, RefusesWhatTheFieldOrTheCheckCannotHold) {
  for (auto [k, m] :
       {std::pair{0U, 1U}, {1U, 0U}, {250U, 7U}, {257U, 1U}, {1U, 256U}, {0xffffffffU, 2U}}) {
    const auto generator = MakeGenerator(k, m);
    EXPECT_EQ(generator.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(generator.status().message()).find("k + m <= 256"), std::string::npos);
  }
  EXPECT_FALSE(MakeGenerator(33, 1).ok());
  EXPECT_FALSE(MakeGenerator(2, 17).ok());
}

// The matrix g_ji = i^(j-1) that Eqn (1) suggests is singular for some losses from m = 4, k = 3 on.
TEST(Generator, CheckCatchesPowersOfTheColumnNumberS9) {
  const auto powers = [](std::uint32_t k, std::uint32_t m) {
    Matrix matrix(m, k);
    for (std::uint32_t c = 0; c < k; ++c) {
      ec_offload::gf256::Element power = 1;
      for (std::uint32_t j = 0; j < m; ++j) {
        matrix.At(j, c) = power;
        power = ec_offload::gf256::Multiply(power, static_cast<std::uint8_t>(c + 1));
      }
    }
    return matrix;
  };
  EXPECT_TRUE(CheckGenerator(powers(3, 3)).ok());
  EXPECT_EQ(CheckGenerator(powers(3, 4)).ok(), false);
  EXPECT_FALSE(CheckGenerator(powers(5, 4)).ok());
  EXPECT_FALSE(CheckGenerator(Matrix{{1, 2}}).ok());
}

}  // namespace
}  // namespace ring::srs
