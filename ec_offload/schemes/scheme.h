// ec_offload/schemes/scheme.h — an erasure-coding scheme: a code, and the graphs that encode with
// it and bring lost chunks back.
//
// What:      Scheme: Encode, Decode, DegradedRead, each as a graph over the nodes of a Placement.
//            What schemes differ in is the shape of the graphs.
// Shape:     Encode: the agent has the data, and every node gets its chunk. Decode: the agent gets
//            all lost chunks. DegradedRead: the requestor gets one of them.
// Units:     chunks of chunk_size bytes, any number from 1 on.
// Threads:   immutable.
// Errors:    kInvalidArgument: a chunk_size of 0; erasures that are none, no chunks of the stripe,
//            or named twice; a read of a chunk that is not lost. kDataLoss, with the chunks: those
//            that are left do not determine them.
// Cost:      a matrix is inverted for each repair, and a graph built.
// Source:    INEC (SC'20), the figure and the table of EC schemes.
#ifndef RING_EC_OFFLOAD_SCHEMES_SCHEME_H_
#define RING_EC_OFFLOAD_SCHEMES_SCHEME_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/graph/layout.h"
#include "ec_offload/schemes/code.h"
#include "ec_offload/schemes/placement.h"

namespace ring::ec_offload {

class Scheme {
 public:
  virtual ~Scheme() = default;
  Scheme(const Scheme&) = delete;
  Scheme& operator=(const Scheme&) = delete;

  const std::string& name() const { return code_.name; }  // "RS(6,3)"
  const Code& code() const { return code_; }
  Placement placement() const { return Placement(code_.chunk_count()); }

  absl::StatusOr<Graph> Encode(std::size_t chunk_size) const;
  // erasures: all chunks that are lost, in any order.
  absl::StatusOr<Graph> Decode(std::size_t chunk_size, absl::Span<const ChunkId> erasures) const;
  // wanted: one of the erasures. What else is lost may be more than can be decoded.
  absl::StatusOr<Graph> DegradedRead(std::size_t chunk_size, absl::Span<const ChunkId> erasures,
                                     ChunkId wanted) const;

 protected:
  struct Repair {
    Combination combination;
    NodeId root = 0;
    bool keep = false;  // nodes that take the place of lost ones may keep their chunks
  };

  explicit Scheme(Code code) : code_(std::move(code)) {}

  std::vector<ChunkPlace> Homes() const;

 private:
  virtual void AddEncode(GraphBuilder& builder) const;  // from the agent to every node
  virtual void AddRepair(GraphBuilder& builder, const Repair& repair) const = 0;

  absl::StatusOr<GraphBuilder> StartGraph(std::size_t chunk_size) const;
  absl::StatusOr<std::vector<ChunkId>> SurvivorsOf(absl::Span<const ChunkId> erasures) const;
  absl::StatusOr<Graph> BuildRepair(std::size_t chunk_size, absl::Span<const ChunkId> erasures,
                                    std::vector<ChunkId> wanted, NodeId root, bool keep) const;

  Code code_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_SCHEME_H_
