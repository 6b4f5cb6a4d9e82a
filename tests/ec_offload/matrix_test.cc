#include "ec_offload/matrix.h"

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/ec_offload/random_matrix.h"

namespace ring::ec_offload {
namespace {

TEST(Matrix, InverseTimesMatrixIsIdentity) {
  SeededRandom random(21);
  int inverted = 0;
  for (std::size_t size = 1; size <= 12; ++size) {
    const Matrix matrix = RandomMatrix(random, size, size);
    const std::optional<Matrix> inverse = Invert(matrix);
    ASSERT_EQ(inverse.has_value(), Rank(matrix) == size);
    if (!inverse) continue;
    ++inverted;
    EXPECT_EQ(Product(*inverse, matrix), Matrix::Identity(size));
    EXPECT_EQ(Product(matrix, *inverse), Matrix::Identity(size));
  }
  EXPECT_GT(inverted, 6);
}

TEST(Matrix, SingularMatrixHasNoInverse) {
  EXPECT_EQ(Invert(Matrix{{1, 2}, {1, 2}}), std::nullopt);
  EXPECT_EQ(Rank(Matrix{{1, 2}, {1, 2}}), 1U);
  EXPECT_EQ(Rank(Matrix(3, 4)), 0U);
}

TEST(Matrix, RankAndSolutionsAreThoseOfTheField) {
  // 2 * 8 is 3 in GF(16), and 16 in GF(256).
  const Matrix rows = {{8, 1}, {3, 2}};
  EXPECT_EQ(Rank(rows, Field::kGf16), 1U);
  EXPECT_EQ(Rank(rows, Field::kGf256), 2U);
  const auto solution = SolveRow(Matrix{{8, 1}}, rows.Row(1), Field::kGf16);
  EXPECT_EQ(solution, (std::vector<gf256::Element>{2}));
  EXPECT_EQ(SolveRow(Matrix{{8, 1}}, rows.Row(1)), std::nullopt);
}

TEST(Matrix, SolveRowCombinesTheBasisIntoTheTarget) {
  SeededRandom random(22);
  for (int round = 0; round < 50; ++round) {
    const Matrix basis = RandomMatrix(random, 6, 5);
    const Matrix combination = RandomMatrix(random, 1, 6);
    const Matrix target = Product(combination, basis);
    const auto solution = SolveRow(basis, target.Row(0));
    ASSERT_TRUE(solution.has_value());
    Matrix row;
    row.AppendRow(*solution);
    EXPECT_EQ(Product(row, basis), target);
  }
}

TEST(Matrix, SolveRowRefusesATargetOutsideTheRowSpace) {
  const Matrix basis = {{1, 0, 0}, {0, 1, 0}, {1, 1, 0}};
  EXPECT_EQ(SolveRow(basis, Matrix{{0, 0, 1}}.Row(0)), std::nullopt);
  const auto solution = SolveRow(basis, Matrix{{1, 1, 0}}.Row(0));
  ASSERT_TRUE(solution.has_value());
  EXPECT_EQ(*solution, (std::vector<gf256::Element>{1, 1, 0}));  // earlier rows are preferred
}

TEST(Matrix, MinorsFindTheSingularOneWhereverItIs) {
  EXPECT_TRUE(AllMinorsInvertible(Matrix{{1, 1, 1}, {1, 2, 3}}));
  EXPECT_FALSE(AllMinorsInvertible(Matrix{{1, 1, 1}, {1, 2, 0}}));
  EXPECT_FALSE(AllMinorsInvertible(Matrix{{1, 1, 1}, {5, 2, 5}}));
  EXPECT_TRUE(AllMinorsInvertible(Matrix{{1}, {2}, {3}}));
}

}  // namespace
}  // namespace ring::ec_offload
