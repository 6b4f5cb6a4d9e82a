#include "ec_offload/graph/graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ec_offload/graph/check.h"
#include "ring/base/status.h"

namespace ring::ec_offload {

std::size_t Vertex::out_degree() const {
  std::size_t count = 0;
  for (const Output& output : outputs) count += output.edges.size();
  return count;
}

std::string VertexName(std::size_t index, const Vertex& vertex) {
  return absl::StrCat("vertex ", index, " at node ", vertex.node);
}

GraphBuilder::GraphBuilder(Field field, std::size_t chunk_size) {
  graph_.field_ = field;
  graph_.chunk_size_ = chunk_size;
}

void GraphBuilder::AddSource(ChunkPlace place) { graph_.sources_.push_back(place); }

std::size_t GraphBuilder::AddVertex(NodeId node, ByteRange range, std::vector<ChunkId> chunks,
                                    Matrix matrix) {
  Vertex& vertex = graph_.vertices_.emplace_back();
  vertex.node = node;
  vertex.range = range;
  vertex.chunks = std::move(chunks);
  vertex.outputs.resize(matrix.rows());
  vertex.matrix = std::move(matrix);
  return graph_.vertices_.size() - 1;
}

void GraphBuilder::Connect(std::size_t from, std::size_t output, std::size_t to) {
  graph_.edges_.push_back({from, output, to});
}

void GraphBuilder::Keep(std::size_t vertex, std::size_t output, ChunkId chunk) {
  kept_.push_back({vertex, output, chunk});
}

absl::StatusOr<Graph> GraphBuilder::Build() && {
  std::vector<Vertex>& vertices = graph_.vertices_;
  std::vector<ChunkPlace>& sources = graph_.sources_;
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());

  RING_RETURN_IF_ERROR(CheckEdges(vertices, graph_.edges_));
  for (std::size_t e = 0; e < graph_.edges_.size(); ++e) {
    const Edge& edge = graph_.edges_[e];
    vertices[edge.from].outputs[edge.output].edges.push_back(e);
    vertices[edge.to].incoming.push_back(e);
  }
  for (const auto& [vertex, output, chunk] : kept_) {
    if (vertex >= vertices.size() || output >= vertices[vertex].outputs.size()) {
      return absl::InvalidArgumentError(absl::StrCat("vertex ", vertex, " keeps output ", output,
                                                     " as chunk ", chunk, ": no such output"));
    }
    std::optional<ChunkId>& kept_as = vertices[vertex].outputs[output].kept_as;
    if (kept_as.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(VertexName(vertex, vertices[vertex]),
                                                     " keeps output ", output, " as chunks ",
                                                     *kept_as, " and ", chunk, ": give one"));
    }
    kept_as = chunk;
  }
  RING_RETURN_IF_ERROR(CheckVertices(vertices, field(), chunk_size(), sources));
  RING_ASSIGN_OR_RETURN(graph_.results_, FindResults(vertices, chunk_size(), sources));
  RING_ASSIGN_OR_RETURN(graph_.layers_, FindLayers(vertices, graph_.edges_));
  return std::move(graph_);
}

}  // namespace ring::ec_offload
