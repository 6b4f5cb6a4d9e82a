#include "ec_offload/graph/graphviz.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ec_offload/graph/primitive.h"

namespace ring::ec_offload {
namespace {

// Where a label goes on in its next line.
constexpr char kNewLine[] = "\\n";

std::string ChunkText(const Graph& graph, const ByteRange& range, ChunkId chunk) {
  if (range.length == graph.chunk_size()) return absl::StrCat("c", chunk);
  return absl::StrCat("c", chunk, "[", range.offset, "..", range.offset + range.length, ")");
}

std::string VertexLabel(const Graph& graph, const Vertex& vertex) {
  std::string label = ToString(ChoosePrimitive(vertex));
  std::vector<std::string> read;
  for (const ChunkId chunk : vertex.chunks) read.push_back(ChunkText(graph, vertex.range, chunk));
  if (!read.empty()) absl::StrAppend(&label, kNewLine, "reads ", absl::StrJoin(read, " "));
  std::vector<std::string> kept;
  for (const Output& output : vertex.outputs) {
    if (output.kept_as.has_value()) kept.push_back(ChunkText(graph, vertex.range, *output.kept_as));
  }
  if (!kept.empty()) absl::StrAppend(&label, kNewLine, "keeps ", absl::StrJoin(kept, " "));
  return label;
}

// The row of the matrix, as the vertex has its inputs: "3 1 1".
std::string EdgeLabel(const Graph& graph, const Edge& edge) {
  const auto row = graph.vertices()[edge.from].matrix.Row(edge.output);
  return absl::StrJoin(row, " ", [](std::string* out, gf256::Element element) {
    absl::StrAppend(out, static_cast<unsigned>(element));
  });
}

void AppendMachines(const Graph& graph, const NodeNames& names, std::string* text) {
  std::map<NodeId, std::vector<std::size_t>> machines;
  for (std::size_t v = 0; v < graph.vertices().size(); ++v)
    machines[graph.vertices()[v].node].push_back(v);
  for (const auto& [node, vertices] : machines) {
    const auto name = names.find(node);
    absl::StrAppend(text, "  subgraph cluster_", node, " {\n    label=\"",
                    name == names.end() ? absl::StrCat("node ", node) : name->second, "\";\n");
    for (const std::size_t v : vertices) {
      absl::StrAppend(text, "    v", v, " [label=\"", VertexLabel(graph, graph.vertices()[v]),
                      "\"];\n");
    }
    absl::StrAppend(text, "  }\n");
  }
}

}  // namespace

std::string ToGraphviz(const Graph& graph, const NodeNames& names) {
  // newrank: ranks hold across the boxes of machines.
  std::string text = "digraph ec {\n  rankdir=LR;\n  newrank=true;\n  node [shape=box];\n";
  AppendMachines(graph, names, &text);
  for (const std::vector<std::size_t>& layer : graph.layers()) {
    absl::StrAppend(
        &text, "  {rank=same; ",
        absl::StrJoin(layer, " ",
                      [](std::string* out, std::size_t v) { absl::StrAppend(out, "v", v, ";"); }),
        "}\n");
  }
  for (const Edge& edge : graph.edges()) {
    absl::StrAppend(&text, "  v", edge.from, " -> v", edge.to, " [label=\"", EdgeLabel(graph, edge),
                    "\"];\n");
  }
  return absl::StrCat(text, "}\n");
}

}  // namespace ring::ec_offload
