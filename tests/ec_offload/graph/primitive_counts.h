// tests/ec_offload/graph/primitive_counts.h — how many vertices of a graph take which primitive.
//
// What:      PrimitiveCounts, PrimitivesOf.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TESTS_EC_OFFLOAD_GRAPH_PRIMITIVE_COUNTS_H_
#define RING_TESTS_EC_OFFLOAD_GRAPH_PRIMITIVE_COUNTS_H_

#include <cstddef>
#include <map>
#include <string>

#include "ec_offload/graph/primitive.h"

namespace ring::ec_offload {

using PrimitiveCounts = std::map<std::string, std::size_t>;

inline PrimitiveCounts PrimitivesOf(const Graph& graph) {
  PrimitiveCounts counts;
  for (const Vertex& vertex : graph.vertices()) ++counts[ToString(ChoosePrimitive(vertex))];
  return counts;
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_GRAPH_PRIMITIVE_COUNTS_H_
