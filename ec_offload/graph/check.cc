#include "ec_offload/graph/check.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/matrix_calculator.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

template <class... Words>
absl::Status Refuse(std::size_t index, const Vertex& vertex, const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(VertexName(index, vertex), words...));
}

std::string RangeText(const ByteRange& range) {
  return absl::StrCat("offset=", range.offset, " length=", range.length);
}

bool Holds(absl::Span<const ChunkPlace> sources, ChunkPlace place) {
  return std::binary_search(sources.begin(), sources.end(), place);
}

absl::Status CheckRange(std::size_t index, const Vertex& vertex, std::size_t chunk_size) {
  const auto& [offset, length] = vertex.range;
  if (length > 0 && offset < chunk_size && length <= chunk_size - offset) return absl::OkStatus();
  return Refuse(index, vertex, " works on ", RangeText(vertex.range),
                ": give a range within chunk_size=", chunk_size);
}

absl::Status CheckMatrix(std::size_t index, const Vertex& vertex, Field field) {
  if (absl::Status status = CheckMatrixSize(vertex.matrix); !status.ok())
    return Refuse(index, vertex, ": ", status.message());
  if (vertex.matrix.columns() != vertex.input_count()) {
    return Refuse(index, vertex, " has chunks=", vertex.chunks.size(),
                  " incoming=", vertex.incoming.size(),
                  " and a matrix of columns=", vertex.matrix.columns(), ": give one for each");
  }
  if (absl::Status status = CheckMatrixElements(vertex.matrix, field); !status.ok())
    return Refuse(index, vertex, ": ", status.message());
  return absl::OkStatus();
}

absl::Status CheckInputs(std::size_t index, const Vertex& vertex,
                         absl::Span<const ChunkPlace> sources) {
  for (std::size_t i = 0; i < vertex.chunks.size(); ++i) {
    const ChunkId chunk = vertex.chunks[i];
    if (!Holds(sources, {vertex.node, chunk}))
      return Refuse(index, vertex, " reads chunk ", chunk, ", which is not there");
    if (std::count(vertex.chunks.begin(), vertex.chunks.end(), chunk) > 1)
      return Refuse(index, vertex, " reads chunk ", chunk, " twice: add the coefficients");
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(std::size_t index, const Vertex& vertex) {
  for (std::size_t o = 0; o < vertex.outputs.size(); ++o) {
    if (!vertex.outputs[o].kept_as.has_value() && vertex.outputs[o].edges.empty())
      return Refuse(index, vertex, " has output ", o, " that goes nowhere: keep or connect it");
  }
  if (vertex.in_degree() == 0 && vertex.out_degree() == 0)
    return Refuse(index, vertex, " has no edges: it needs no graph");
  return absl::OkStatus();
}

// A cycle is found by going back from any vertex that never got ready.
absl::Status RefuseCycle(absl::Span<const Vertex> vertices, absl::Span<const Edge> edges,
                         absl::Span<const std::size_t> missing_counts) {
  std::size_t at = 0;
  while (missing_counts[at] == 0) ++at;
  std::vector<std::size_t> trail;
  while (std::count(trail.begin(), trail.end(), at) == 0) {
    trail.push_back(at);
    for (const std::size_t e : vertices[at].incoming) {
      if (missing_counts[edges[e].from] > 0) {
        at = edges[e].from;
        break;
      }
    }
  }
  std::string text;
  auto step = trail.rbegin();
  for (; *step != at; ++step) absl::StrAppend(&text, ", ", *step);
  absl::StrAppend(&text, ", ", at);
  return Refuse(at, vertices[at], " waits for itself: a cycle through vertices ", text.substr(2));
}

}  // namespace

absl::Status CheckEdges(absl::Span<const Vertex> vertices, absl::Span<const Edge> edges) {
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const Edge& edge = edges[e];
    for (const std::size_t end : {edge.from, edge.to}) {
      if (end < vertices.size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("edge ", e, " joins vertex ", end, " of ", vertices.size()));
    }
    const Vertex& from = vertices[edge.from];
    const Vertex& to = vertices[edge.to];
    if (edge.output >= from.outputs.size()) {
      return Refuse(edge.from, from, " sends output ", edge.output, " on edge ", e,
                    ": outputs=", from.outputs.size());
    }
    if (from.node == to.node) {
      return Refuse(edge.from, from, " sends to vertex ", edge.to,
                    " of the same node: make them one vertex");
    }
    if (from.range != to.range) {
      return Refuse(edge.from, from, " sends ", RangeText(from.range), " to ",
                    VertexName(edge.to, to), ", which works on ", RangeText(to.range));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckVertices(absl::Span<const Vertex> vertices, Field field, std::size_t chunk_size,
                           absl::Span<const ChunkPlace> sources) {
  if (vertices.empty()) return absl::InvalidArgumentError("a graph without vertices");
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    RING_RETURN_IF_ERROR(CheckRange(v, vertices[v], chunk_size));
    RING_RETURN_IF_ERROR(CheckMatrix(v, vertices[v], field));
    RING_RETURN_IF_ERROR(CheckInputs(v, vertices[v], sources));
    RING_RETURN_IF_ERROR(CheckOutputs(v, vertices[v]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ChunkPlace>> FindResults(absl::Span<const Vertex> vertices,
                                                    std::size_t chunk_size,
                                                    absl::Span<const ChunkPlace> sources) {
  // The vertices that keep a part of a chunk, by the part's offset.
  std::map<ChunkPlace, std::vector<std::size_t>> keepers;
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    for (const Output& output : vertices[v].outputs) {
      if (!output.kept_as.has_value()) continue;
      const ChunkPlace place{vertices[v].node, *output.kept_as};
      if (Holds(sources, place)) {
        return Refuse(v, vertices[v], " keeps chunk ", place.chunk, ", which is there already");
      }
      keepers[place].push_back(v);
    }
  }
  std::vector<ChunkPlace> results;
  for (auto& [place, parts] : keepers) {
    std::sort(parts.begin(), parts.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(vertices[a].range.offset, a) < std::tuple(vertices[b].range.offset, b);
    });
    std::size_t end = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Vertex& vertex = vertices[parts[i]];
      if (vertex.range.offset < end) {
        return Refuse(parts[i], vertex, " keeps chunk ", place.chunk, " ", RangeText(vertex.range),
                      ", which vertex ", parts[i - 1], " keeps");
      }
      if (vertex.range.offset > end) break;
      end += vertex.range.length;
    }
    if (end != chunk_size) {
      return Refuse(parts[0], vertices[parts[0]], " keeps a part of chunk ", place.chunk,
                    ": nobody keeps the byte at offset=", end);
    }
    results.push_back(place);
  }
  return results;
}

absl::StatusOr<std::vector<std::vector<std::size_t>>> FindLayers(absl::Span<const Vertex> vertices,
                                                                 absl::Span<const Edge> edges) {
  std::vector<std::size_t> missing_counts;
  std::vector<std::size_t> ready;
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    missing_counts.push_back(vertices[v].in_degree());
    if (missing_counts[v] == 0) ready.push_back(v);
  }
  std::vector<std::vector<std::size_t>> layers;
  std::size_t ordered_count = 0;
  while (!ready.empty()) {
    std::vector<std::size_t> next;
    for (const std::size_t v : ready) {
      for (const Output& output : vertices[v].outputs) {
        for (const std::size_t e : output.edges) {
          if (--missing_counts[edges[e].to] == 0) next.push_back(edges[e].to);
        }
      }
    }
    ordered_count += ready.size();
    layers.push_back(std::move(ready));
    std::sort(next.begin(), next.end());
    ready = std::move(next);
  }
  if (ordered_count != vertices.size()) return RefuseCycle(vertices, edges, missing_counts);
  return layers;
}

}  // namespace ring::ec_offload
