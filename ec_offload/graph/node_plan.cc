#include "ec_offload/graph/node_plan.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ec_offload/inec/descriptors.h"
#include "ring/base/align.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

// Where an edge is among the lanes of its two ends.
struct EdgeLanes {
  std::size_t out = 0;  // of the sender's plan
  std::size_t in = 0;   // of the receiver's
};

class Planner {
 public:
  Planner(const Graph& graph, NodeId node)
      : graph_(graph), node_(node), landing_(graph.edges().size()), lanes_(graph.edges().size()) {}

  absl::StatusOr<NodePlan> Plan() {
    for (const ChunkPlace& place : graph_.sources()) AddChunk(place);
    for (const ChunkPlace& place : graph_.results()) AddChunk(place);
    AddLanes();
    for (const std::size_t v : RunOrder(graph_)) {
      if (graph_.vertices()[v].node == node_) RING_RETURN_IF_ERROR(AddOperation(v));
    }
    for (PlannedLane& lane : plan_.in) {
      for (const std::size_t e : edges_of_[lane.number]) lane.messages.push_back(landing_[e]);
    }
    return std::move(plan_);
  }

 private:
  PlannedBuffer NewBuffer(std::size_t length) {
    const PlannedBuffer buffer{plan_.memory_size, length};
    plan_.memory_size += AlignUp(length, kBufferAlignment);
    return buffer;
  }
  void AddChunk(const ChunkPlace& place) {
    if (place.node != node_ || plan_.chunks.contains(place.chunk)) return;
    plan_.chunks[place.chunk] = NewBuffer(graph_.chunk_size());
  }
  PlannedBuffer PartOf(ChunkId chunk, const ByteRange& range) const {
    return {plan_.chunks.at(chunk).offset + range.offset, range.length};
  }

  void AddLanes() {
    const std::vector<Lane> lanes = AssignLanes(graph_);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Lane& lane = lanes[i];
      if (lane.from == node_) {
        for (const std::size_t e : lane.edges) lanes_[e].out = plan_.out.size();
        plan_.out.push_back({i, lane.to, {}});
      } else if (lane.to == node_) {
        for (const std::size_t e : lane.edges) lanes_[e].in = plan_.in.size();
        plan_.in.push_back({i, lane.from, {}});
        edges_of_[i] = lane.edges;
      }
    }
  }

  // Receives each message where it is kept, if it is, else in a buffer of its own. Gives which
  // kept outputs that settles.
  std::vector<bool> PlaceMessages(const Vertex& vertex) {
    std::vector<bool> settled(vertex.outputs.size());
    for (std::size_t i = 0; i < vertex.incoming.size(); ++i) {
      PlannedBuffer& landing = landing_[vertex.incoming[i]];
      for (std::size_t o = 0; o < vertex.outputs.size() && landing.length == 0; ++o) {
        if (!vertex.outputs[o].kept_as.has_value() ||
            CopiedInput(vertex.matrix, o) != vertex.chunks.size() + i)
          continue;
        landing = PartOf(*vertex.outputs[o].kept_as, vertex.range);
        settled[o] = true;
      }
      if (landing.length == 0) landing = NewBuffer(vertex.range.length);
    }
    return settled;
  }

  absl::Status AddOperation(std::size_t v) {
    const Vertex& vertex = graph_.vertices()[v];
    PlannedOperation operation;
    operation.vertex = v;
    operation.choice = ChoosePrimitive(vertex);
    plan_.has_source |= vertex.incoming.empty();
    const std::vector<bool> settled = PlaceMessages(vertex);

    std::vector<PlannedBuffer> inputs;
    for (const ChunkId chunk : vertex.chunks) inputs.push_back(PartOf(chunk, vertex.range));
    for (const std::size_t e : vertex.incoming) inputs.push_back(landing_[e]);

    std::vector<std::size_t> rows;
    for (std::size_t o = 0; o < vertex.outputs.size(); ++o) {
      const std::optional<ChunkId> kept = vertex.outputs[o].kept_as;
      const std::optional<std::size_t> copied = CopiedInput(vertex.matrix, o);
      PlannedBuffer from = copied.has_value() ? inputs[*copied] : PlannedBuffer();
      // A copy that is kept somewhere else than it was read or received is calculated as well.
      if (!copied.has_value() || (kept.has_value() && !settled[o])) {
        const PlannedBuffer buffer =
            kept.has_value() ? PartOf(*kept, vertex.range) : NewBuffer(vertex.range.length);
        rows.push_back(o);
        operation.outputs.push_back(buffer);
        if (!copied.has_value()) from = buffer;
      }
      const bool at_once = copied.has_value() && *copied < vertex.chunks.size();
      for (const std::size_t e : vertex.outputs[o].edges) AddSend(operation, e, at_once, from);
    }
    if (!rows.empty()) operation.matrix = vertex.matrix.SelectRows(rows);
    operation.inputs = std::move(inputs);
    if (rows.empty()) operation.inputs.resize(1);
    for (const std::size_t e : vertex.incoming) AddWait(operation, lanes_[e].in);
    RING_RETURN_IF_ERROR(CheckWidth(operation));
    plan_.operations.push_back(std::move(operation));
    return absl::OkStatus();
  }

  void AddSend(PlannedOperation& operation, std::size_t edge, bool at_once,
               const PlannedBuffer& from) {
    const std::size_t lane = lanes_[edge].out;
    plan_.out[lane].messages.push_back(from);
    for (PlannedOperation::Send& send : operation.sends) {
      if (send.lane == lane) return send.messages.push_back(from);
    }
    operation.sends.push_back({lane, at_once, {from}});
  }

  static void AddWait(PlannedOperation& operation, std::size_t lane) {
    for (PlannedOperation::Wait& wait : operation.waits) {
      if (wait.lane == lane) {
        ++wait.count;
        return;
      }
    }
    operation.waits.push_back({lane, 1});
  }

  absl::Status CheckWidth(const PlannedOperation& operation) const {
    if (operation.waits.size() <= kInecReceiveQueueCountMax &&
        operation.sends.size() <= kInecChannelCountMax)
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(VertexName(operation.vertex, graph_.vertices()[operation.vertex]),
                     ": receives from ", operation.waits.size(), " and sends to ",
                     operation.sends.size(), " connections, a primitive has ",
                     kInecReceiveQueueCountMax, " and ", kInecChannelCountMax));
  }

  const Graph& graph_;
  NodeId node_;
  NodePlan plan_;
  std::vector<PlannedBuffer> landing_;                        // by edge
  std::vector<EdgeLanes> lanes_;                              // by edge
  std::map<std::size_t, std::vector<std::size_t>> edges_of_;  // by the number of an incoming lane
};

}  // namespace

absl::StatusOr<NodePlan> PlanNode(const Graph& graph, NodeId node) {
  return Planner(graph, node).Plan();
}

}  // namespace ring::ec_offload
