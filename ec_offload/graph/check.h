// ec_offload/graph/check.h — what makes vertices and edges a graph that can be run.
//
// What:      the checks of GraphBuilder::Build, one for each kind of rule: CheckEdges before edges
//            are followed, CheckVertices, FindResults, FindLayers.
// Threads:   pure.
// Errors:    kInvalidArgument, with the vertex and what is wrong with it.
#ifndef RING_EC_OFFLOAD_GRAPH_CHECK_H_
#define RING_EC_OFFLOAD_GRAPH_CHECK_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/graph/graph.h"

namespace ring::ec_offload {

// Of vertices without outputs as yet: both ends are vertices of different nodes and of one range.
absl::Status CheckEdges(absl::Span<const Vertex> vertices, absl::Span<const Edge> edges);

// sources: ascending.
absl::Status CheckVertices(absl::Span<const Vertex> vertices, Field field, std::size_t chunk_size,
                           absl::Span<const ChunkPlace> sources);

// What outputs are kept as: whole chunks, ascending.
absl::StatusOr<std::vector<ChunkPlace>> FindResults(absl::Span<const Vertex> vertices,
                                                    std::size_t chunk_size,
                                                    absl::Span<const ChunkPlace> sources);

absl::StatusOr<std::vector<std::vector<std::size_t>>> FindLayers(absl::Span<const Vertex> vertices,
                                                                 absl::Span<const Edge> edges);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_CHECK_H_
