// ec_offload/graph/memory_run.h — runs a graph in the memory of one process.
//
// What:      RunInMemory: reads the sources, computes vertex by vertex in the order of layers,
//            writes the results. No fabric: what a run over one has to give, byte for byte.
// Shape:     StripeMemory has the chunks of all nodes, each of the graph's chunk_size.
// Ownership: borrows for the call.
// Threads:   thread-compatible.
// Errors:    kInvalidArgument: a source is missing or of another size, with its place. Memory is
//            unchanged then.
// Cost:      a buffer for each message, a calculator for each vertex that computes.
#ifndef RING_EC_OFFLOAD_GRAPH_MEMORY_RUN_H_
#define RING_EC_OFFLOAD_GRAPH_MEMORY_RUN_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "ec_offload/graph/graph.h"

namespace ring::ec_offload {

using StripeMemory = std::map<ChunkPlace, std::vector<std::byte>>;

// Adds the results to memory; what was there at their places is replaced.
absl::Status RunInMemory(const Graph& graph, StripeMemory& memory);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_MEMORY_RUN_H_
