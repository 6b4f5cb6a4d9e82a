// ec_offload/schemes/placement.h — which node has which part in a stripe.
//
// What:      Placement: chunk i is on node i; behind these come the agent, the requestor, and for
//            each chunk the node that takes its place when it is lost.
// Threads:   a value.
// Errors:    none.
// Source:    INEC (SC'20), section "Co-Design Case Study": the agent encodes and decodes. The
//            requestor is who reads a lost chunk.
#ifndef RING_EC_OFFLOAD_SCHEMES_PLACEMENT_H_
#define RING_EC_OFFLOAD_SCHEMES_PLACEMENT_H_

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/graph/graphviz.h"

namespace ring::ec_offload {

class Placement {
 public:
  explicit Placement(std::size_t chunk_count) : chunk_count_(static_cast<NodeId>(chunk_count)) {}

  ChunkPlace Home(ChunkId chunk) const { return {chunk, chunk}; }
  NodeId agent() const { return chunk_count_; }
  NodeId requestor() const { return chunk_count_ + 1; }
  NodeId Replacement(ChunkId chunk) const { return chunk_count_ + 2 + chunk; }
  std::size_t node_count() const { return std::size_t{2} * chunk_count_ + 2; }

  // For pictures.
  NodeNames Names() const {
    NodeNames names = {{agent(), "agent"}, {requestor(), "requestor"}};
    for (ChunkId chunk = 0; chunk < chunk_count_; ++chunk)
      names[Replacement(chunk)] = absl::StrCat("replacement of node ", chunk);
    return names;
  }

 private:
  NodeId chunk_count_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_PLACEMENT_H_
