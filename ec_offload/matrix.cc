#include "ec_offload/matrix.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "ec_offload/subsets.h"
#include "ring/base/check.h"

namespace ring::ec_offload {
namespace {

using gf256::Element;

void SwapRows(Matrix& matrix, std::size_t a, std::size_t b) {
  for (std::size_t c = 0; c < matrix.columns(); ++c) std::swap(matrix.At(a, c), matrix.At(b, c));
}

void ScaleRow(Matrix& matrix, std::size_t row, Element factor, Field field) {
  for (std::size_t c = 0; c < matrix.columns(); ++c) {
    matrix.At(row, c) = Multiply(field, matrix.At(row, c), factor);
  }
}

void AddRow(Matrix& matrix, std::size_t to, std::size_t from, Element factor, Field field) {
  if (factor == 0) return;
  for (std::size_t c = 0; c < matrix.columns(); ++c) {
    matrix.At(to, c) =
        static_cast<Element>(matrix.At(to, c) ^ Multiply(field, matrix.At(from, c), factor));
  }
}

// Reduced row echelon form over the first `width` columns; gives each pivot's column.
std::vector<std::size_t> Reduce(Matrix& matrix, std::size_t width, Field field = Field::kGf256) {
  std::vector<std::size_t> pivots;
  for (std::size_t column = 0; column < width && pivots.size() < matrix.rows(); ++column) {
    const std::size_t row = pivots.size();
    std::size_t found = row;
    while (found < matrix.rows() && matrix.At(found, column) == 0) ++found;
    if (found == matrix.rows()) continue;
    SwapRows(matrix, row, found);
    ScaleRow(matrix, row, Inverse(field, matrix.At(row, column)), field);
    for (std::size_t other = 0; other < matrix.rows(); ++other) {
      if (other != row) AddRow(matrix, other, row, matrix.At(other, column), field);
    }
    pivots.push_back(column);
  }
  return pivots;
}

}  // namespace

Matrix::Matrix(std::size_t rows, std::size_t columns)
    : rows_(rows), columns_(columns), elements_(rows * columns, 0) {}

Matrix::Matrix(std::initializer_list<std::initializer_list<Element>> rows) {
  for (const auto& row : rows) AppendRow(absl::MakeConstSpan(row.begin(), row.size()));
}

Matrix Matrix::Identity(std::size_t size) {
  Matrix matrix(size, size);
  for (std::size_t i = 0; i < size; ++i) matrix.At(i, i) = 1;
  return matrix;
}

void Matrix::AppendRow(absl::Span<const Element> row) {
  if (rows_ == 0) columns_ = row.size();
  RING_CHECK(row.size() == columns_)
      << "row of " << row.size() << " elements, columns=" << columns_;
  elements_.insert(elements_.end(), row.begin(), row.end());
  ++rows_;
}

Matrix Matrix::SelectRows(absl::Span<const std::size_t> rows) const {
  Matrix selected(rows.size(), columns_);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < columns_; ++c) selected.At(r, c) = At(rows[r], c);
  }
  return selected;
}

Matrix Matrix::SelectColumns(absl::Span<const std::size_t> columns) const {
  Matrix selected(rows_, columns.size());
  for (std::size_t r = 0; r < rows_; ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c) selected.At(r, c) = At(r, columns[c]);
  }
  return selected;
}

std::string Matrix::ToString() const {
  std::string text;
  for (std::size_t r = 0; r < rows_; ++r) {
    for (std::size_t c = 0; c < columns_; ++c) {
      absl::StrAppend(&text, c == 0 ? "" : " ", static_cast<unsigned>(At(r, c)));
    }
    text += '\n';
  }
  return text;
}

Matrix Product(const Matrix& a, const Matrix& b, Field field) {
  RING_CHECK(a.columns() == b.rows()) << a.columns() << " columns by " << b.rows() << " rows";
  Matrix product(a.rows(), b.columns());
  for (std::size_t r = 0; r < a.rows(); ++r) {
    for (std::size_t c = 0; c < b.columns(); ++c) {
      unsigned sum = 0;
      for (std::size_t i = 0; i < a.columns(); ++i) sum ^= Multiply(field, a.At(r, i), b.At(i, c));
      product.At(r, c) = static_cast<Element>(sum);
    }
  }
  return product;
}

std::size_t Rank(Matrix matrix, Field field) {
  return Reduce(matrix, matrix.columns(), field).size();
}

std::optional<Matrix> Invert(const Matrix& matrix, Field field) {
  RING_CHECK(matrix.rows() == matrix.columns()) << matrix.rows() << " x " << matrix.columns();
  const std::size_t size = matrix.rows();
  Matrix extended(size, 2 * size);
  for (std::size_t r = 0; r < size; ++r) {
    for (std::size_t c = 0; c < size; ++c) extended.At(r, c) = matrix.At(r, c);
    extended.At(r, size + r) = 1;
  }
  if (Reduce(extended, size, field).size() != size) return std::nullopt;
  std::vector<std::size_t> right(size);
  for (std::size_t c = 0; c < size; ++c) right[c] = size + c;
  return extended.SelectColumns(right);
}

std::optional<std::vector<Element>> SolveRow(const Matrix& basis, absl::Span<const Element> target,
                                             Field field) {
  RING_CHECK(target.size() == basis.columns())
      << target.size() << " for " << basis.columns() << " columns";
  // x * basis = target, transposed: the columns of the system are the basis' rows, its right side
  // is target.
  Matrix system(basis.columns(), basis.rows() + 1);
  for (std::size_t r = 0; r < basis.columns(); ++r) {
    for (std::size_t c = 0; c < basis.rows(); ++c) system.At(r, c) = basis.At(c, r);
    system.At(r, basis.rows()) = target[r];
  }
  const std::vector<std::size_t> pivots = Reduce(system, basis.rows(), field);
  for (std::size_t r = pivots.size(); r < system.rows(); ++r) {
    if (system.At(r, basis.rows()) != 0) return std::nullopt;
  }
  std::vector<Element> solution(basis.rows(), 0);
  for (std::size_t i = 0; i < pivots.size(); ++i) solution[pivots[i]] = system.At(i, basis.rows());
  return solution;
}

bool AllMinorsInvertible(const Matrix& matrix) {
  RING_CHECK(matrix.rows() <= 16) << "rows=" << matrix.rows();
  RING_CHECK(matrix.columns() <= 32) << "columns=" << matrix.columns();
  const std::uint64_t column_end = std::uint64_t{1} << matrix.columns();
  for (std::uint32_t rows = 1; rows < (1U << matrix.rows()); ++rows) {
    const Matrix band = matrix.SelectRows(BitsOf(rows));
    if (band.rows() > matrix.columns()) continue;
    for (std::uint64_t columns = FirstSubset(band.rows()); columns < column_end;
         columns = NextSubset(columns)) {
      if (Rank(band.SelectColumns(BitsOf(columns))) != band.rows()) return false;
    }
  }
  return true;
}

}  // namespace ring::ec_offload
