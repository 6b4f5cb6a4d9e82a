// ec_offload/graph/node_plan.h — a node's part of a graph, compiled: memory, and primitives in
// order.
//
// What:      PlanNode: where chunks, messages and sums lie in one block of memory; the node's
//            vertices as operations of the INEC primitives; its lanes (lanes.h).
// Shape:     a message that is kept as it comes is received where it is kept, and one output of a
//            vertex is one buffer however often it is sent: nothing is copied but by the fabric.
// Units:     bytes; every buffer begins at a multiple of kBufferAlignment.
// Ownership: values.
// Threads:   pure.
// Errors:    kInvalidArgument: a vertex with more lanes than a primitive has, by name.
// Cost:      linear in the node's vertices, after AssignLanes.
#ifndef RING_EC_OFFLOAD_GRAPH_NODE_PLAN_H_
#define RING_EC_OFFLOAD_GRAPH_NODE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/graph/lanes.h"
#include "ec_offload/graph/primitive.h"
#include "ec_offload/matrix.h"

namespace ring::ec_offload {

inline constexpr std::size_t kBufferAlignment = 64;

struct PlannedBuffer {
  std::size_t offset = 0;
  std::size_t length = 0;
  friend bool operator==(const PlannedBuffer&, const PlannedBuffer&) = default;
};

struct PlannedLane {
  std::size_t number = 0;  // in AssignLanes
  NodeId peer = 0;
  std::vector<PlannedBuffer> messages;  // in the order in which they travel
};

struct PlannedOperation {
  struct Wait {
    std::size_t lane = 0;  // of NodePlan::in
    std::uint32_t count = 0;
  };
  struct Send {
    std::size_t lane = 0;  // of NodePlan::out
    bool at_once = false;
    std::vector<PlannedBuffer> messages;
  };

  std::size_t vertex = 0;
  PrimitiveChoice choice;
  Matrix matrix;                      // of the calculator; without rows: none
  std::vector<PlannedBuffer> inputs;  // without a calculator: one that has the length
  std::vector<PlannedBuffer> outputs;
  std::vector<Wait> waits;
  std::vector<Send> sends;
};

struct NodePlan {
  std::size_t memory_size = 0;
  std::map<ChunkId, PlannedBuffer> chunks;   // the node's sources and results
  std::vector<PlannedOperation> operations;  // in RunOrder
  std::vector<PlannedLane> in;
  std::vector<PlannedLane> out;
  bool has_source = false;  // an operation that waits for nothing
};

absl::StatusOr<NodePlan> PlanNode(const Graph& graph, NodeId node);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_NODE_PLAN_H_
