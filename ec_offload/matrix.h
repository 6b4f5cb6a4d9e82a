// ec_offload/matrix.h — small dense matrices over GF(2^8), or over GF(2^4).
//
// What:      Matrix; product, rank, inverse, solution of linear systems, and the check that no
//            square minor is singular (which makes a systematic code maximum distance separable).
// Shape:     rows x columns, row-major; an element is a byte in either field, and the operations
//            whose result depends on the field take it. GF(2^4) wants elements below 16.
// Ownership: a value; copies are deep.
// Threads:   thread-compatible.
// Errors:    shapes that do not fit are broken invariants (RING_CHECK). A singular matrix has no
//            inverse: nullopt.
// Cost:      cubic; for set-up, recovery plans and tests, never for a put.
#ifndef RING_EC_OFFLOAD_MATRIX_H_
#define RING_EC_OFFLOAD_MATRIX_H_

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ec_offload/field.h"
#include "ec_offload/gf256.h"

namespace ring::ec_offload {

class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t columns);  // zero
  Matrix(std::initializer_list<std::initializer_list<gf256::Element>> rows);
  static Matrix Identity(std::size_t size);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  gf256::Element& At(std::size_t row, std::size_t column) {
    return elements_[row * columns_ + column];
  }
  gf256::Element At(std::size_t row, std::size_t column) const {
    return elements_[row * columns_ + column];
  }
  absl::Span<const gf256::Element> Row(std::size_t row) const {
    return absl::MakeConstSpan(elements_).subspan(row * columns_, columns_);
  }
  absl::Span<const gf256::Element> elements() const { return elements_; }

  void AppendRow(absl::Span<const gf256::Element> row);
  Matrix SelectRows(absl::Span<const std::size_t> rows) const;
  Matrix SelectColumns(absl::Span<const std::size_t> columns) const;
  std::string ToString() const;

  friend bool operator==(const Matrix&, const Matrix&) = default;

 private:
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<gf256::Element> elements_;
};

Matrix Product(const Matrix& a, const Matrix& b, Field field = Field::kGf256);
std::size_t Rank(Matrix matrix, Field field = Field::kGf256);
std::optional<Matrix> Invert(const Matrix& matrix, Field field = Field::kGf256);

// A row x with x * basis = target, or nullopt where target is not in the row space of basis. The
// first rows of basis are preferred: coefficients of rows that depend on earlier ones are 0.
std::optional<std::vector<gf256::Element>> SolveRow(const Matrix& basis,
                                                    absl::Span<const gf256::Element> target,
                                                    Field field = Field::kGf256);

// Whether every square minor of every size is invertible. REQUIRES: rows() <= 16, columns() <= 32.
bool AllMinorsInvertible(const Matrix& matrix);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_MATRIX_H_
