#include "ec_offload/coding_matrix.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::ec_offload {
namespace {

absl::Status CheckCode(Field field, std::size_t k, std::size_t m) {
  const std::size_t elements = ElementCount(field);
  if (k >= 1 && m >= 1 && k < elements && m < elements && k + m <= elements)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("k=", k, " m=", m, ": both at least 1, together at most ", elements));
}

void ScaleColumn(Matrix& matrix, std::size_t column, std::size_t first_row, std::uint8_t factor,
                 Field field) {
  for (std::size_t r = first_row; r < matrix.rows(); ++r)
    matrix.At(r, column) = Multiply(field, matrix.At(r, column), factor);
}

// Row i is (i^0, i^1, ...), but the last, which is (0, ..., 0, 1).
Matrix ExtendedVandermonde(Field field, std::size_t rows, std::size_t columns) {
  Matrix matrix(rows, columns);
  for (std::size_t r = 0; r + 1 < rows; ++r) {
    std::uint8_t power = 1;
    for (std::size_t c = 0; c < columns; ++c) {
      matrix.At(r, c) = power;
      power = Multiply(field, power, static_cast<std::uint8_t>(r));
    }
  }
  matrix.At(rows - 1, columns - 1) = 1;
  return matrix;
}

// Column operations that make the first rows the identity: they keep what the rows span.
void MakeSystematic(Matrix& matrix, Field field) {
  for (std::size_t i = 1; i < matrix.columns(); ++i) {
    std::size_t row = i;
    while (row < matrix.rows() && matrix.At(row, i) == 0) ++row;
    RING_CHECK(row < matrix.rows()) << "column=" << i << " of a Vandermonde matrix is zero";
    if (row != i) {
      for (std::size_t c = 0; c < matrix.columns(); ++c)
        std::swap(matrix.At(row, c), matrix.At(i, c));
    }
    ScaleColumn(matrix, i, 0, Inverse(field, matrix.At(i, i)), field);
    for (std::size_t c = 0; c < matrix.columns(); ++c) {
      const std::uint8_t factor = matrix.At(i, c);
      if (c == i || factor == 0) continue;
      for (std::size_t r = 0; r < matrix.rows(); ++r) {
        matrix.At(r, c) =
            static_cast<std::uint8_t>(matrix.At(r, c) ^ Multiply(field, factor, matrix.At(r, i)));
      }
    }
  }
}

}  // namespace

absl::StatusOr<Matrix> VandermondeCoding(Field field, std::size_t k, std::size_t m) {
  if (absl::Status status = CheckCode(field, k, m); !status.ok()) return status;
  Matrix matrix = ExtendedVandermonde(field, k + m, k);
  MakeSystematic(matrix, field);
  // Ones in the first parity, then in the first column of the others.
  for (std::size_t c = 0; c < k; ++c)
    ScaleColumn(matrix, c, k, Inverse(field, matrix.At(k, c)), field);
  Matrix coding(m, k);
  for (std::size_t r = 0; r < m; ++r) {
    const std::uint8_t factor = Inverse(field, matrix.At(k + r, 0));
    for (std::size_t c = 0; c < k; ++c)
      coding.At(r, c) = Multiply(field, matrix.At(k + r, c), factor);
  }
  return coding;
}

absl::StatusOr<Matrix> CauchyCoding(Field field, std::size_t k, std::size_t m) {
  if (absl::Status status = CheckCode(field, k, m); !status.ok()) return status;
  Matrix coding(m, k);
  for (std::size_t r = 0; r < m; ++r) {
    for (std::size_t c = 0; c < k; ++c)
      coding.At(r, c) = Inverse(field, static_cast<std::uint8_t>(r ^ (m + c)));
  }
  return coding;
}

absl::StatusOr<DecodePlan> PlanDecoding(Field field, const Matrix& coding,
                                        absl::Span<const std::size_t> erasures) {
  const std::size_t k = coding.columns();
  const std::size_t m = coding.rows();
  for (std::size_t i = 0; i < erasures.size(); ++i) {
    if (erasures[i] >= k + m || (i > 0 && erasures[i] <= erasures[i - 1])) {
      return absl::InvalidArgumentError(
          absl::StrCat("erasure ", erasures[i], ": give ascending indices below ", k + m));
    }
  }
  if (erasures.size() > m)
    return absl::DataLossError(absl::StrCat("erasures=", erasures.size(), " m=", m));
  Matrix generator = Matrix::Identity(k);
  for (std::size_t r = 0; r < m; ++r) generator.AppendRow(coding.Row(r));
  DecodePlan plan;
  for (std::size_t block = 0; plan.survivors.size() < k; ++block) {
    if (!std::binary_search(erasures.begin(), erasures.end(), block))
      plan.survivors.push_back(block);
  }
  std::optional<Matrix> inverse = Invert(generator.SelectRows(plan.survivors), field);
  if (!inverse.has_value()) return absl::DataLossError("the survivors do not determine the data");
  plan.inverse = *std::move(inverse);
  plan.decode = Product(generator.SelectRows(erasures), plan.inverse, field);
  return plan;
}

}  // namespace ring::ec_offload
