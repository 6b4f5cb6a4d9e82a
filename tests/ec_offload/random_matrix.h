// tests/ec_offload/random_matrix.h — a matrix of random elements.
//
// What:      RandomMatrix, the same for the same state of the generator.
// Threads:   pure, but for the generator.
// Errors:    none.
#ifndef RING_TESTS_EC_OFFLOAD_RANDOM_MATRIX_H_
#define RING_TESTS_EC_OFFLOAD_RANDOM_MATRIX_H_

#include <cstddef>

#include "ec_offload/matrix.h"
#include "ring/base/random.h"

namespace ring::ec_offload {

inline Matrix RandomMatrix(SeededRandom& random, std::size_t rows, std::size_t columns) {
  Matrix matrix(rows, columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      matrix.At(r, c) = static_cast<gf256::Element>(random.Next64());
    }
  }
  return matrix;
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_RANDOM_MATRIX_H_
