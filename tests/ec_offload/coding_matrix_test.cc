#include "ec_offload/coding_matrix.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"

namespace ring::ec_offload {
namespace {

TEST(CodingMatrix, VandermondeIsJerasures) {
  EXPECT_EQ(*VandermondeCoding(Field::kGf16, 10, 4), (Matrix{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                                             {1, 14, 4, 10, 15, 9, 12, 6, 7, 2},
                                                             {1, 12, 3, 9, 6, 7, 10, 8, 14, 5},
                                                             {1, 13, 10, 6, 4, 8, 15, 3, 11, 7}}));
  EXPECT_EQ(
      *VandermondeCoding(Field::kGf256, 6, 3),
      (Matrix{{1, 1, 1, 1, 1, 1}, {1, 225, 151, 172, 82, 200}, {1, 123, 245, 143, 244, 142}}));
}

TEST(CodingMatrix, CauchyIsTheInverseOfTheXorOfThePoints) {
  const Matrix coding = *CauchyCoding(Field::kGf16, 6, 3);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 6; ++c)
      EXPECT_EQ(gf16::Multiply(coding.At(r, c), static_cast<std::uint8_t>(r ^ (3 + c))), 1);
  }
}

TEST(CodingMatrix, RefusesMoreBlocksThanTheFieldHasElements) {
  for (const auto& make : {VandermondeCoding, CauchyCoding}) {
    EXPECT_TRUE(make(Field::kGf16, 12, 4).ok());
    EXPECT_TRUE(make(Field::kGf256, 252, 4).ok());
    for (const auto& [k, m] : {std::pair{0UL, 4UL}, {4UL, 0UL}, {13UL, 4UL}, {16UL, 1UL}})
      EXPECT_EQ(make(Field::kGf16, k, m).status().code(), absl::StatusCode::kInvalidArgument);
    for (const auto& [k, m] : {std::pair{253UL, 4UL}, {256UL, 1UL}, {1UL, 256UL}})
      EXPECT_EQ(make(Field::kGf256, k, m).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// The generator's rows of the erased blocks, from those of the survivors.
void ExpectPlanIsRight(Field field, const Matrix& coding, const std::vector<std::size_t>& erased) {
  const auto plan = PlanDecoding(field, coding, erased);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::size_t k = coding.columns();
  Matrix generator = Matrix::Identity(k);
  for (std::size_t r = 0; r < coding.rows(); ++r) generator.AppendRow(coding.Row(r));
  std::vector<std::size_t> alive;
  for (std::size_t block = 0; block < generator.rows(); ++block) {
    if (std::count(erased.begin(), erased.end(), block) == 0) alive.push_back(block);
  }
  alive.resize(k);
  ASSERT_EQ(plan->survivors, alive);
  const Matrix survivors = generator.SelectRows(alive);
  ASSERT_EQ(Product(plan->inverse, survivors, field), Matrix::Identity(k));
  ASSERT_EQ(Product(plan->decode, survivors, field), generator.SelectRows(erased));
}

TEST(CodingMatrix, EveryErasureOfASmallCodeIsDecodedFromTheFirstSurvivors) {
  for (const Field field : {Field::kGf16, Field::kGf256}) {
    for (const Matrix& coding : {*VandermondeCoding(field, 6, 4), *CauchyCoding(field, 6, 4)}) {
      for (unsigned mask = 0; mask < 1024; ++mask) {
        std::vector<std::size_t> erased;
        for (std::size_t block = 0; block < 10; ++block) {
          if (((mask >> block) & 1) != 0) erased.push_back(block);
        }
        if (erased.size() <= 4) {
          ASSERT_NO_FATAL_FAILURE(ExpectPlanIsRight(field, coding, erased)) << "mask=" << mask;
        } else {
          ASSERT_EQ(PlanDecoding(field, coding, erased).status().code(),
                    absl::StatusCode::kDataLoss);
        }
      }
    }
  }
}

TEST(CodingMatrix, APlanRefusesIndicesOutOfOrderOrOutOfTheCode) {
  const Matrix coding = *CauchyCoding(Field::kGf16, 4, 2);
  for (const std::vector<std::size_t>& erased :
       {std::vector<std::size_t>{6}, {2, 1}, {1, 1}, {0, 7}}) {
    EXPECT_EQ(PlanDecoding(Field::kGf16, coding, erased).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ring::ec_offload
