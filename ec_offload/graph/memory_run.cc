#include "ec_offload/graph/memory_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/block_calculator.h"
#include "ec_offload/graph/primitive.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

using Buffer = std::vector<std::byte>;

absl::Status CheckSources(const Graph& graph, const StripeMemory& memory) {
  for (const ChunkPlace& place : graph.sources()) {
    const auto found = memory.find(place);
    if (found != memory.end() && found->second.size() == graph.chunk_size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk ", place.chunk, " at node ", place.node, " has size=",
        found == memory.end() ? 0 : found->second.size(), ": give ", graph.chunk_size()));
  }
  return absl::OkStatus();
}

class Run {
 public:
  Run(const Graph& graph, const StripeMemory& memory)
      : graph_(graph), memory_(memory), messages_(graph.edges().size()) {
    for (const ChunkPlace& place : graph.results()) results_[place].resize(graph.chunk_size());
  }

  absl::Status Compute(const Vertex& vertex) {
    const std::vector<const std::byte*> inputs = InputsOf(vertex);
    std::vector<Buffer> buffers(vertex.outputs.size(), Buffer(vertex.range.length));
    for (std::size_t o = 0; o < buffers.size(); ++o) {
      if (const auto input = CopiedInput(vertex.matrix, o); input.has_value())
        std::copy_n(inputs[*input], vertex.range.length, buffers[o].data());
    }
    RING_RETURN_IF_ERROR(Calculate(vertex, inputs, buffers));
    for (std::size_t o = 0; o < buffers.size(); ++o) {
      const Output& output = vertex.outputs[o];
      for (const std::size_t e : output.edges) messages_[e] = buffers[o];
      if (!output.kept_as.has_value()) continue;
      Buffer& result = results_[{vertex.node, *output.kept_as}];
      std::copy(buffers[o].begin(), buffers[o].end(),
                result.begin() + static_cast<std::ptrdiff_t>(vertex.range.offset));
    }
    return absl::OkStatus();
  }

  void MoveResultsTo(StripeMemory& memory) {
    for (auto& [place, bytes] : results_) memory[place] = std::move(bytes);
  }

 private:
  std::vector<const std::byte*> InputsOf(const Vertex& vertex) const {
    std::vector<const std::byte*> inputs;
    for (const ChunkId chunk : vertex.chunks)
      inputs.push_back(memory_.at({vertex.node, chunk}).data() + vertex.range.offset);
    for (const std::size_t e : vertex.incoming) inputs.push_back(messages_[e].data());
    return inputs;
  }

  absl::Status Calculate(const Vertex& vertex, const std::vector<const std::byte*>& inputs,
                         std::vector<Buffer>& buffers) const {
    const std::vector<std::size_t> computed = ComputedOutputs(vertex);
    if (computed.empty()) return absl::OkStatus();
    const int w = graph_.field() == Field::kGf16 ? 4 : 8;
    RING_ASSIGN_OR_RETURN(const std::unique_ptr<rdma::Calculator> calculator,
                          MakeBlockCalculator(w, vertex.matrix.SelectRows(computed)));
    std::vector<std::byte*> outputs;
    for (const std::size_t o : computed) outputs.push_back(buffers[o].data());
    RING_CHECK(calculator->Run(inputs.data(), outputs.data(), vertex.range.length, nullptr))
        << "matrices always compute";
    return absl::OkStatus();
  }

  const Graph& graph_;
  const StripeMemory& memory_;
  std::vector<Buffer> messages_;
  StripeMemory results_;
};

}  // namespace

absl::Status RunInMemory(const Graph& graph, StripeMemory& memory) {
  RING_RETURN_IF_ERROR(CheckSources(graph, memory));
  Run run(graph, memory);
  for (const std::vector<std::size_t>& layer : graph.layers()) {
    for (const std::size_t v : layer) RING_RETURN_IF_ERROR(run.Compute(graph.vertices()[v]));
  }
  run.MoveResultsTo(memory);
  return absl::OkStatus();
}

}  // namespace ring::ec_offload
