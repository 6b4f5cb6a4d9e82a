#include "ec_offload/matrix_calculator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/random_blocks.h"
#include "tests/ec_offload/random_matrix.h"

namespace ring::ec_offload {
namespace {

TEST(MatrixCalculator, IsalEqualsTheScalarOracleWithCrcs) {
  SeededRandom random(41);
  for (std::size_t length = 0; length <= 300; ++length) {
    const std::size_t rows = 1 + random.Below(7);
    const std::size_t columns = 1 + random.Below(16);
    const Matrix matrix = RandomMatrix(random, rows, columns);
    const auto isal = IsalMatrixCalculator::Create(matrix);
    const auto scalar = ScalarMatrixCalculator::Create(matrix);
    ASSERT_TRUE(isal.ok() && scalar.ok());
    ASSERT_EQ((*isal)->input_count(), columns);
    ASSERT_EQ((*isal)->output_count(), rows);
    const Blocks inputs = RandomBlocks(random, columns, length);
    Blocks actual(rows, std::vector<std::byte>(length)), expected = actual;
    std::vector<std::uint32_t> actual_crcs(rows), expected_crcs(rows);
    ASSERT_TRUE(
        (*isal)->Run(Inputs(inputs).data(), Outputs(actual).data(), length, actual_crcs.data()));
    ASSERT_TRUE((*scalar)->Run(Inputs(inputs).data(), Outputs(expected).data(), length,
                               expected_crcs.data()));
    ASSERT_EQ(actual, expected) << "length=" << length;
    ASSERT_EQ(actual_crcs, expected_crcs);
  }
}

TEST(MatrixCalculator, OutputsMayBeInputsInPlace) {
  SeededRandom random(42);
  for (std::size_t length : {1UL, 33UL, 64UL, 100UL, 511UL, 512UL, 513UL, 4099UL}) {
    const Matrix matrix = RandomMatrix(random, 8, 8);
    const auto isal = IsalMatrixCalculator::Create(matrix);
    const auto scalar = ScalarMatrixCalculator::Create(matrix);
    const Blocks inputs = RandomBlocks(random, 8, length);
    Blocks expected(8, std::vector<std::byte>(length));
    ASSERT_TRUE((*scalar)->Run(Inputs(inputs).data(), Outputs(expected).data(), length, nullptr));
    Blocks by_isal = inputs;
    ASSERT_TRUE((*isal)->Run(Inputs(by_isal).data(), Outputs(by_isal).data(), length, nullptr));
    EXPECT_EQ(by_isal, expected) << "length=" << length;
    Blocks by_scalar = inputs;
    ASSERT_TRUE(
        (*scalar)->Run(Inputs(by_scalar).data(), Outputs(by_scalar).data(), length, nullptr));
    EXPECT_EQ(by_scalar, expected) << "length=" << length;
  }
}

TEST(MatrixCalculator, IsalEqualsTheOracleAtItsWidest) {
  SeededRandom random(43);
  for (const auto& [rows, columns] : {std::pair{255UL, 1UL}, {1UL, 255UL}, {128UL, 128UL}}) {
    const Matrix matrix = RandomMatrix(random, rows, columns);
    const auto isal = IsalMatrixCalculator::Create(matrix);
    const auto scalar = ScalarMatrixCalculator::Create(matrix);
    ASSERT_TRUE(isal.ok() && scalar.ok());
    for (const std::size_t length : {1UL, 63UL, 64UL, 200UL}) {
      const Blocks inputs = RandomBlocks(random, columns, length);
      Blocks actual(rows, std::vector<std::byte>(length)), expected = actual;
      ASSERT_TRUE((*isal)->Run(Inputs(inputs).data(), Outputs(actual).data(), length, nullptr));
      ASSERT_TRUE((*scalar)->Run(Inputs(inputs).data(), Outputs(expected).data(), length, nullptr));
      ASSERT_EQ(actual, expected) << rows << " x " << columns << " length=" << length;
      Blocks shared = inputs;
      shared.resize(std::max(rows, columns), std::vector<std::byte>(length));
      ASSERT_TRUE((*isal)->Run(Inputs(shared).data(), Outputs(shared).data(), length, nullptr));
      shared.resize(rows);
      ASSERT_EQ(shared, expected) << "in place, " << rows << " x " << columns;
    }
  }
}

TEST(MatrixCalculator, RefusesSizesBeyondItsLimit) {
  for (const Matrix& matrix :
       {Matrix(), Matrix(kMatrixSizeMax + 1, 1), Matrix(1, kMatrixSizeMax + 1)}) {
    EXPECT_EQ(IsalMatrixCalculator::Create(matrix).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ScalarMatrixCalculator::Create(matrix).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(IsalMatrixCalculator::Create(Matrix(kMatrixSizeMax, kMatrixSizeMax)).ok());
}

}  // namespace
}  // namespace ring::ec_offload
