// ec_offload/graph/layout.h — the shapes of EC schemes, as vertices and edges of a graph.
//
// What:      AddScatter and AddTripartiteEncode, which encode; AddStar, AddBinomialTree, AddChain
//            and AddTripartiteDecode, which bring a combination of chunks to a root.
// Shape:     a combination makes each of its wanted chunks from the helpers' chunks, one row of
//            factors each. A helper whose factor is 0 has no part in that chunk. Tree and chain are
//            of one wanted chunk: several get one each.
// Threads:   pure, but for the builder.
// Errors:    none here; Build refuses what does not fit.
// Source:    INEC (SC'20), the figures of EC schemes; PPR (EuroSys'16); ECPipe (ATC'17); TriEC
//            (SC'19). The tree is binomial: at step t, every helper whose number has its lowest bit
//            at t sends to the one without that bit, so that k helpers take ceil(log2(k+1)) steps.
#ifndef RING_EC_OFFLOAD_GRAPH_LAYOUT_H_
#define RING_EC_OFFLOAD_GRAPH_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/matrix.h"

namespace ring::ec_offload {

struct Combination {
  std::vector<ChunkPlace> helpers;
  std::vector<ChunkId> wanted;
  Matrix factors;  // wanted x helpers
};

// The agent has chunks 0..k-1, and sends each node its chunk. generator: a row for each target.
void AddScatter(GraphBuilder& builder, NodeId agent, const Matrix& generator,
                absl::Span<const ChunkPlace> targets);

// The agent sends each data node its chunk, that keeps it, multiplies it for each parity and sends
// the products on; parity nodes add k of them. targets: k data, then the parities.
void AddTripartiteEncode(GraphBuilder& builder, NodeId agent, const Matrix& generator,
                         absl::Span<const ChunkPlace> targets);

// Every helper sends its chunk to the root, which computes.
void AddStar(GraphBuilder& builder, const Combination& combination, NodeId root);

// Partial sums go up a binomial tree; the root adds the last ones.
void AddBinomialTree(GraphBuilder& builder, const Combination& combination, NodeId root);

enum class ChainOrder : std::uint8_t {
  kBasic,   // every slice takes helper 1, 2, .., k, root
  kCyclic,  // of k-1 slices in turn each has another last helper: the root has k-1 links in use
};

// The partial sum of a slice goes from helper to helper, the next slice right behind it. The last
// slice may be shorter. REQUIRES: slice_size > 0.
void AddChain(GraphBuilder& builder, const Combination& combination, NodeId root,
              std::size_t slice_size, ChainOrder order);

struct Aggregators {
  std::vector<NodeId> nodes;  // one for each wanted chunk
  bool keep = false;          // the chunk stays there, too: it is the lost one's new place
};

// Every helper multiplies its chunk for each aggregator; that adds the products, and sends the sum
// to the root.
void AddTripartiteDecode(GraphBuilder& builder, const Combination& combination,
                         const Aggregators& aggregators, NodeId root);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_LAYOUT_H_
