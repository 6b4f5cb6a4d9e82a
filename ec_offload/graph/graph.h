// ec_offload/graph/graph.h — the dynamic EC graph: who computes what of a stripe, and who sends
// what to whom.
//
// What:      Graph: vertices (work of one node on one range of its chunks) and edges (what one
//            vertex sends to another). GraphBuilder, which checks and orders it: every Graph there
//            is can be run.
// Shape:     a vertex computes outputs = matrix * inputs. Its inputs are the chunks that it reads
//            at its node, then its incoming edges, in the order in which they were connected. Each
//            output is kept at the node as a chunk, goes out on edges, or both. An edge carries one
//            output, as one message. All of a vertex is of one range: the code works on every byte
//            of a stripe alike.
// Units:     chunks of chunk_size bytes; a range is a whole chunk or a slice of one. Indices of
//            vertices, edges and outputs count from 0 in the order in which they were made.
// Ownership: values.
// Threads:   a Graph is immutable; a builder is one thread's.
// Errors:    Build: kInvalidArgument, with the vertex and what is wrong with it.
// Cost:      building is linear in vertices and edges, but for logarithms.
// Source:    INEC (SC'20), "Dynamic EC Graph".
#ifndef RING_EC_OFFLOAD_GRAPH_GRAPH_H_
#define RING_EC_OFFLOAD_GRAPH_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/field.h"
#include "ec_offload/matrix.h"

namespace ring::ec_offload {

using NodeId = std::uint32_t;   // a machine
using ChunkId = std::uint32_t;  // a place in the stripe: data first, then parities

struct ByteRange {
  std::size_t offset = 0;
  std::size_t length = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// A chunk where it is.
struct ChunkPlace {
  NodeId node = 0;
  ChunkId chunk = 0;
  friend auto operator<=>(const ChunkPlace&, const ChunkPlace&) = default;
};

struct Edge {
  std::size_t from = 0;    // vertex
  std::size_t output = 0;  // of that vertex
  std::size_t to = 0;      // vertex
  friend bool operator==(const Edge&, const Edge&) = default;
};

struct Output {
  std::optional<ChunkId> kept_as;  // a result: these bytes of that chunk stay at the node
  std::vector<std::size_t> edges;
};

struct Vertex {
  NodeId node = 0;
  ByteRange range;
  std::vector<ChunkId> chunks;        // read at the node
  std::vector<std::size_t> incoming;  // edges
  Matrix matrix;                      // outputs x (chunks, then incoming)
  std::vector<Output> outputs;

  std::size_t input_count() const { return chunks.size() + incoming.size(); }
  std::size_t in_degree() const { return incoming.size(); }
  std::size_t out_degree() const;
};

// "vertex 3 at node 7", as errors name it.
std::string VertexName(std::size_t index, const Vertex& vertex);

class Graph {
 public:
  Field field() const { return field_; }
  std::size_t chunk_size() const { return chunk_size_; }
  const std::vector<Vertex>& vertices() const { return vertices_; }
  const std::vector<Edge>& edges() const { return edges_; }
  // Chunks that are there before: vertices read no others. Ascending.
  const std::vector<ChunkPlace>& sources() const { return sources_; }
  // Chunks that are there afterwards, whole. Ascending.
  const std::vector<ChunkPlace>& results() const { return results_; }
  // Vertices without incoming edges, then those all of whose edges come from earlier layers. In
  // this order every vertex comes behind what it waits for.
  const std::vector<std::vector<std::size_t>>& layers() const { return layers_; }

  const ByteRange& RangeOf(const Edge& edge) const { return vertices_[edge.from].range; }

 private:
  friend class GraphBuilder;
  Graph() = default;

  Field field_ = Field::kGf256;
  std::size_t chunk_size_ = 0;
  std::vector<Vertex> vertices_;
  std::vector<Edge> edges_;
  std::vector<ChunkPlace> sources_;
  std::vector<ChunkPlace> results_;
  std::vector<std::vector<std::size_t>> layers_;
};

class GraphBuilder {
 public:
  GraphBuilder(Field field, std::size_t chunk_size);

  Field field() const { return graph_.field_; }
  std::size_t chunk_size() const { return graph_.chunk_size_; }
  ByteRange whole_chunk() const { return {0, graph_.chunk_size_}; }

  // Says that the chunk is there. Once more is no error.
  void AddSource(ChunkPlace place);
  // Work at a node: reads a range of `chunks`, which are sources. Gives the vertex.
  std::size_t AddVertex(NodeId node, ByteRange range, std::vector<ChunkId> chunks, Matrix matrix);
  // An output of `from` becomes the next input of `to`.
  void Connect(std::size_t from, std::size_t output, std::size_t to);
  // An output of the vertex stays at its node as that chunk.
  void Keep(std::size_t vertex, std::size_t output, ChunkId chunk);

  // Each error names the vertex. What is refused: sizes of 0 and ranges outside of the chunk;
  // edges and kept outputs of vertices or outputs that do not exist; edges within a node, or
  // between different ranges; a matrix whose shape is not that of inputs and outputs, or whose
  // elements are not the field's; a chunk read that is not there, or read twice; an output that
  // goes nowhere; a vertex without edges; bytes of a result that are kept twice, are missing, or
  // would replace a source; cycles.
  absl::StatusOr<Graph> Build() &&;

 private:
  struct Kept {
    std::size_t vertex = 0;
    std::size_t output = 0;
    ChunkId chunk = 0;
  };

  Graph graph_;
  std::vector<Kept> kept_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_GRAPH_H_
