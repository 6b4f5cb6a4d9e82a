#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

#include <utility>

namespace ring::ec_verbs {
namespace {

// Gauss and Jordan; the matrix is square and regular.
std::vector<Bytes> Inverted(const SlowField& field, std::vector<Bytes> matrix) {
  const std::size_t size = matrix.size();
  std::vector<Bytes> inverse(size, Bytes(size, 0));
  for (std::size_t i = 0; i < size; ++i) inverse[i][i] = 1;
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    while (pivot < size && matrix[pivot][column] == 0) ++pivot;
    RING_CHECK(pivot < size);
    std::swap(matrix[pivot], matrix[column]);
    std::swap(inverse[pivot], inverse[column]);
    const std::uint8_t scale = field.Inverse(matrix[column][column]);
    for (std::size_t i = 0; i < size; ++i) {
      matrix[column][i] = field.Product(matrix[column][i], scale);
      inverse[column][i] = field.Product(inverse[column][i], scale);
    }
    for (std::size_t row = 0; row < size; ++row) {
      const std::uint8_t factor = matrix[row][column];
      if (row == column || factor == 0) continue;
      for (std::size_t i = 0; i < size; ++i) {
        matrix[row][i] ^= field.Product(matrix[column][i], factor);
        inverse[row][i] ^= field.Product(inverse[column][i], factor);
      }
    }
  }
  return inverse;
}

}  // namespace

Bytes DecodeColumns(const SlowField& field, int k, int m, const Bytes& encode,
                    const Bytes& erasures) {
  const auto data = static_cast<std::size_t>(k);
  const auto code = static_cast<std::size_t>(m);
  // The row of each block over the data blocks.
  std::vector<Bytes> rows(data + code, Bytes(data, 0));
  for (std::size_t i = 0; i < data; ++i) {
    rows[i][i] = 1;
    for (std::size_t j = 0; j < code; ++j) rows[data + j][i] = encode[i * code + j];
  }
  std::vector<Bytes> left;
  for (std::size_t block = 0; block < data + code; ++block) {
    if (erasures[block] == 0 && left.size() < data) left.push_back(rows[block]);
  }
  const std::vector<Bytes> inverse = Inverted(field, left);
  std::vector<Bytes> columns;
  for (std::size_t block = 0; block < data + code; ++block) {
    if (erasures[block] == 0) continue;
    Bytes column(data, 0);
    for (std::size_t i = 0; i < data; ++i) {
      for (std::size_t through = 0; through < data; ++through) {
        column[i] ^= field.Product(rows[block][through], inverse[through][i]);
      }
    }
    columns.push_back(column);
  }
  Bytes matrix;
  for (std::size_t i = 0; i < data; ++i) {
    for (const Bytes& column : columns) matrix.push_back(column[i]);
  }
  return matrix;
}

}  // namespace ring::ec_verbs
