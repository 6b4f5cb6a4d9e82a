#include "ec_offload/matrix_calculator.h"

#include <vector>

#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tests/ec_offload/random_matrix.h"

namespace ring::ec_offload {
namespace {

using Blocks = std::vector<std::vector<std::byte>>;

Blocks RandomBlocks(SeededRandom& random, std::size_t count, std::size_t size) {
  Blocks blocks(count, std::vector<std::byte>(size));
  for (auto& block : blocks) {
    for (auto& byte : block) byte = static_cast<std::byte>(random.Next64());
  }
  return blocks;
}

std::vector<const std::byte*> Inputs(const Blocks& blocks) {
  std::vector<const std::byte*> pointers;
  for (const auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}

std::vector<std::byte*> Outputs(Blocks& blocks) {
  std::vector<std::byte*> pointers;
  for (auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}

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

TEST(MatrixCalculator, RefusesSizesBeyondItsLimit) {
  for (const Matrix& matrix : {Matrix(), Matrix(33, 1), Matrix(1, 33)}) {
    EXPECT_EQ(IsalMatrixCalculator::Create(matrix).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ScalarMatrixCalculator::Create(matrix).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(IsalMatrixCalculator::Create(Matrix(32, 32)).ok());
}

}  // namespace
}  // namespace ring::ec_offload
