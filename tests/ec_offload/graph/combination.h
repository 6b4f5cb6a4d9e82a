// tests/ec_offload/graph/combination.h — a combination of chunks 0, 1, .. at nodes 0, 1, ..
//
// What:      MakeCombination.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TESTS_EC_OFFLOAD_GRAPH_COMBINATION_H_
#define RING_TESTS_EC_OFFLOAD_GRAPH_COMBINATION_H_

#include "ec_offload/graph/layout.h"

namespace ring::ec_offload {

// Row i of the factors makes chunk 100 + i.
inline Combination MakeCombination(Matrix factors) {
  Combination combination;
  for (ChunkId chunk = 0; chunk < factors.columns(); ++chunk)
    combination.helpers.push_back({chunk, chunk});
  for (ChunkId row = 0; row < factors.rows(); ++row) combination.wanted.push_back(100 + row);
  combination.factors = std::move(factors);
  return combination;
}

// One wanted chunk, factors 2, 3, ..
inline Combination MakeCombination(std::size_t helper_count) {
  Matrix factors(1, helper_count);
  for (std::size_t h = 0; h < helper_count; ++h)
    factors.At(0, h) = static_cast<gf256::Element>(h + 2);
  return MakeCombination(factors);
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_GRAPH_COMBINATION_H_
