#include "ec_offload/block_calculator.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "ec_offload/matrix_calculator.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/random_blocks.h"
#include "tests/ec_offload/random_matrix.h"

namespace ring::ec_offload {
namespace {

// Both calculators apart and in place, with guards around every block.
void ExpectEqualsOracle(const rdma::Calculator& fast, const rdma::Calculator& oracle,
                        SeededRandom& random, std::size_t length) {
  constexpr std::size_t kGuard = 70;
  const std::size_t count = std::max(fast.input_count(), fast.output_count());
  const std::size_t shift = random.Below(kGuard);
  Blocks inputs = RandomBlocks(random, fast.input_count(), length + kGuard);
  Blocks outputs = RandomBlocks(random, fast.output_count(), length + kGuard);
  Blocks expected = outputs;
  const auto at_shift = [shift](Blocks& blocks) {
    std::vector<std::byte*> pointers = Outputs(blocks);
    for (std::byte*& pointer : pointers) pointer += shift;
    return pointers;
  };
  std::vector<std::uint32_t> crcs(fast.output_count()), expected_crcs(fast.output_count());
  ASSERT_TRUE(
      oracle.Run(at_shift(inputs).data(), at_shift(expected).data(), length, expected_crcs.data()));
  ASSERT_TRUE(fast.Run(at_shift(inputs).data(), at_shift(outputs).data(), length, crcs.data()));
  ASSERT_EQ(outputs, expected) << "length=" << length;
  ASSERT_EQ(crcs, expected_crcs) << "length=" << length;
  Blocks shared = inputs;
  shared.resize(count, RandomBlocks(random, 1, length + kGuard)[0]);
  Blocks by_oracle = shared;
  ASSERT_TRUE(oracle.Run(at_shift(by_oracle).data(), at_shift(by_oracle).data(), length, nullptr));
  ASSERT_TRUE(fast.Run(at_shift(shared).data(), at_shift(shared).data(), length, nullptr));
  ASSERT_EQ(shared, by_oracle) << "in place, length=" << length;
}

std::vector<std::size_t> Lengths() {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 300; ++length) lengths.push_back(length);
  for (std::size_t length : {511U, 512U, 513U, 4096U, 10001U, 65536U, 65599U})
    lengths.push_back(length);
  return lengths;
}

TEST(BlockCalculator, EqualsTheOracleAtEveryLengthAndWidth) {
  SeededRandom random(51);
  for (const int w : {1, 2, 4, 8}) {
    for (const std::size_t length : Lengths()) {
      const Matrix matrix = RandomMatrix(random, 1 + random.Below(9), 1 + random.Below(12));
      const auto fast = MakeBlockCalculator(w, matrix);
      const auto oracle = ScalarMatrixCalculator::Create(matrix, *FieldOfWidth(w));
      ASSERT_TRUE(fast.ok() && oracle.ok());
      ASSERT_NO_FATAL_FAILURE(ExpectEqualsOracle(**fast, **oracle, random, length)) << "w=" << w;
    }
  }
}

TEST(XorCalculator, EqualsTheOracleAtEveryLength) {
  SeededRandom random(53);
  for (const std::size_t length : Lengths()) {
    const std::size_t inputs = 1 + random.Below(12);
    Matrix ones(1, inputs);
    for (std::size_t c = 0; c < inputs; ++c) ones.At(0, c) = 1;
    const auto fast = MakeXorCalculator(inputs);
    const auto oracle = ScalarMatrixCalculator::Create(ones);
    ASSERT_TRUE(fast.ok() && oracle.ok());
    ASSERT_NO_FATAL_FAILURE(ExpectEqualsOracle(**fast, **oracle, random, length));
  }
}

TEST(BlockCalculator, EveryEngineEqualsTheOracleInBothFields) {
  SeededRandom random(52);
  for (const DotEngine& engine : DotEngines()) {
    for (const Field field : {Field::kGf16, Field::kGf256}) {
      for (const std::size_t length : Lengths()) {
        const Matrix matrix = RandomMatrix(random, 1 + random.Below(9), 1 + random.Below(12));
        const auto fast = TableMatrixCalculator::Create(matrix, field, engine);
        const auto oracle = ScalarMatrixCalculator::Create(matrix, field);
        ASSERT_TRUE(fast.ok() && oracle.ok());
        ASSERT_NO_FATAL_FAILURE(ExpectEqualsOracle(**fast, **oracle, random, length))
            << engine.name;
      }
    }
  }
}

// The kernels have a short cut for an output that is the xor of the inputs.
TEST(BlockCalculator, OutputsThatAreSumsEqualTheOracle) {
  SeededRandom random(55);
  for (const DotEngine& engine : DotEngines()) {
    for (const std::size_t length : Lengths()) {
      Matrix matrix = RandomMatrix(random, 1 + random.Below(9), 1 + random.Below(12));
      for (std::size_t r = 0; r < matrix.rows(); ++r) {
        for (std::size_t c = 0; r % 2 == 0 && c < matrix.columns(); ++c) matrix.At(r, c) = 1;
      }
      const auto fast = TableMatrixCalculator::Create(matrix, Field::kGf256, engine);
      const auto oracle = ScalarMatrixCalculator::Create(matrix, Field::kGf256);
      ASSERT_TRUE(fast.ok() && oracle.ok());
      ASSERT_NO_FATAL_FAILURE(ExpectEqualsOracle(**fast, **oracle, random, length)) << engine.name;
    }
  }
}

TEST(BlockCalculator, CodesOfAllSymbolsOfTheFieldWork) {
  SeededRandom random(53);
  for (const auto& [w, rows, columns] : {std::tuple{4, 15UL, 1UL},
                                         {4, 1UL, 15UL},
                                         {4, 8UL, 8UL},
                                         {8, 255UL, 1UL},
                                         {8, 1UL, 255UL},
                                         {8, 128UL, 128UL}}) {
    const Matrix matrix = RandomMatrix(random, rows, columns);
    const auto fast = MakeBlockCalculator(w, matrix);
    const auto oracle = ScalarMatrixCalculator::Create(matrix, *FieldOfWidth(w));
    ASSERT_TRUE(fast.ok() && oracle.ok());
    for (const std::size_t length : {1U, 63U, 64U, 65U, 200U})
      ASSERT_NO_FATAL_FAILURE(ExpectEqualsOracle(**fast, **oracle, random, length));
  }
}

TEST(BlockCalculator, NibbleCodesIgnoreTheUpperBitsOfTheMatrix) {
  SeededRandom random(54);
  const Matrix garbage = RandomMatrix(random, 3, 6);
  Matrix clean = garbage;
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < 6; ++c) clean.At(r, c) &= 15;
  }
  const auto by_garbage = MakeBlockCalculator(4, garbage);
  const auto by_clean = MakeBlockCalculator(4, clean);
  ASSERT_TRUE(by_garbage.ok() && by_clean.ok());
  ExpectEqualsOracle(**by_garbage, **by_clean, random, 1000);
}

TEST(BlockCalculator, RefusesOtherWidthsAndSizes) {
  for (const int w : {-1, 0, 3, 5, 16, 32}) {
    EXPECT_EQ(MakeBlockCalculator(w, Matrix(2, 2)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const int w : {4, 8}) {
    for (const Matrix& matrix : {Matrix(), Matrix(257, 1), Matrix(1, 257)}) {
      EXPECT_EQ(MakeBlockCalculator(w, matrix).status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace ring::ec_offload
