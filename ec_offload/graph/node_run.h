// ec_offload/graph/node_run.h — runs a node's part of a graph over the fabric, by INEC primitives.
//
// What:      NodeRun: set up once (memory, queues, connections, calculators), then run as often as
//            wanted. Every vertex is one operation of the primitive that ChoosePrimitive says, the
//            coherent or the incoherent way.
// Shape:     a run has two calls, and between them every node must have had its first:
//            Prepare posts all receives, and all operations of a node that starts nothing;
//            Start   posts all operations of a node that starts something, those that wait for
//                    nothing first.
//            So nothing of the graph is posted when the first message leaves, but by those who
//            start; the coherent way a node needs its host for one of these calls, once, however
//            deep the graph is, and again to hear of the end.
//            A vertex that fails ends the run of its node, which takes its connections down so
//            that others hear of it; the rest of the run ends at its deadline at the latest. Then
//            all nodes Disconnect, Connect again, and the next run works.
// Units:     nanoseconds of the caller's clock; bytes.
// Ownership: memory and queues are the run's. Borrows the device, which makes progress and tells
//            connection events through it: one device for each NodeRun, which goes first.
// Threads:   the device's. Chunks are the caller's while no run is under way.
// Errors:    Create: kInvalidArgument, kResourceExhausted, naming vertex or lane. Connect, Prepare:
//            kFailedPrecondition with the peer that is not connected. status(): the first vertex
//            that failed, with the step, the peer, and what became of it.
// Cost:      no allocation in a run, after the first, but for errors.
// Source:    INEC (SC'20), sections III-A and III-D.
#ifndef RING_EC_OFFLOAD_GRAPH_NODE_RUN_H_
#define RING_EC_OFFLOAD_GRAPH_NODE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/graph/node_plan.h"
#include "ec_offload/inec/hybrid.h"
#include "ec_offload/inec/primitives.h"
#include "rdma/fabric.h"

namespace ring::ec_offload {

using NodeAddresses = std::map<NodeId, std::string>;

struct NodeRunCounters {
  std::uint64_t runs = 0;
  // Turns of the host without which operations stand still: the call that posts them, and every
  // turn that takes some to their next step.
  std::uint64_t interventions = 0;
  std::uint64_t wakeups = 0;
};

class NodeRun {
 public:
  struct Options {
    rdma::Device* device = nullptr;
    std::string loop_address;  // where the device listens, for its calc queue alone
    InecThresholds thresholds = MeasuredThresholds();
    bool calculate_on_host = false;
    // Null, or what calculates a vertex in place of the calculator given.
    std::function<std::unique_ptr<rdma::Calculator>(std::size_t vertex,
                                                    std::unique_ptr<rdma::Calculator>)>
        replace_calculator = nullptr;
  };
  static absl::StatusOr<std::unique_ptr<NodeRun>> Create(const Graph& graph, NodeId node,
                                                         const Options& options);
  ~NodeRun();
  NodeRun(const NodeRun&) = delete;
  NodeRun& operator=(const NodeRun&) = delete;

  NodeId node() const { return node_; }
  const NodePlan& plan() const { return plan_; }
  // A source or a result at this node. REQUIRES: the graph has it here.
  absl::Span<std::byte> chunk(ChunkId chunk);

  // Starts to connect with those to whom this node sends; they do the same with theirs.
  absl::Status Connect(const NodeAddresses& peers);
  bool connected() const;
  // Why connecting failed, if it did.
  const absl::Status& connect_status() const { return connect_status_; }
  // Takes all connections down. REQUIRES: done().
  void Disconnect();

  absl::Status Prepare(std::uint64_t deadline_ns);
  absl::Status Start();
  // No run is under way.
  bool done() const { return phase_ == Phase::kIdle; }
  // Of the last run.
  const absl::Status& status() const { return status_; }

  // Once a turn. Gives whether anything happened.
  bool Progress(std::uint64_t now_ns);
  // Before this thread sleeps on the device's descriptor: Progress once more then.
  void Arm() { primitives_->Arm(); }
  void CountWakeup();

  const NodeRunCounters& counters() const { return counters_; }
  const InecCounters& inec_counters() const { return primitives_->counters(); }

 private:
  enum class Phase : std::uint8_t {
    kIdle = 0,
    kPrepared = 1,  // waits for Start
    kRunning = 2,   // everything is posted
  };
  struct Connection {
    std::unique_ptr<rdma::CompletionQueue> recv_cq;  // of incoming lanes
    std::unique_ptr<rdma::QueuePair> qp;
    bool established = false;
  };
  // A vertex, with what its primitive is told.
  struct Operation {
    std::unique_ptr<rdma::Calculator> calculator;
    std::vector<rdma::Sge> inputs;
    std::vector<rdma::Sge> outputs;
    std::vector<InecReceive> receives;
    std::vector<rdma::Sge> messages;
    std::vector<rdma::WorkRequest> requests;  // a chain for each channel
    std::vector<InecChannel> channels;
  };

  NodeRun(NodeId node, NodePlan plan, const Options& options);
  absl::Status SetUp(const Graph& graph);
  absl::Status MakeCalculator(const Graph& graph, std::size_t index);
  void Describe(std::size_t index);
  rdma::Sge SgeOf(const PlannedBuffer& buffer) const;
  absl::Status PostReceives();
  absl::Status Submit(std::size_t index);
  void SubmitAll();
  bool TakeEvents();
  void OnEvent(const rdma::ConnectionEvent& event);
  void Accept(const rdma::ConnectionEvent& event);
  Connection* Find(const rdma::QueuePair* qp, NodeId* peer);
  bool TakeOutcomes();
  void Fail(std::size_t index, const absl::Status& why, InecStep step, std::size_t channel);
  void EndIfDone();
  void ResetConnections();

  NodeId node_;
  NodePlan plan_;
  Options options_;
  std::vector<std::string> vertex_names_;  // by operation
  std::byte* memory_ = nullptr;
  std::uint32_t lkey_ = 0;
  std::vector<Connection> in_;   // as plan_.in
  std::vector<Connection> out_;  // as plan_.out
  std::unique_ptr<rdma::CompletionQueue> idle_cq_;
  std::unique_ptr<InecPrimitives> primitives_;
  std::vector<Operation> operations_;

  Phase phase_ = Phase::kIdle;
  std::uint64_t deadline_ns_ = 0;
  std::size_t open_ = 0;  // operations without an outcome
  bool broken_ = false;   // connections are down, or owe receives
  absl::Status status_;
  absl::Status connect_status_;
  NodeRunCounters counters_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_NODE_RUN_H_
