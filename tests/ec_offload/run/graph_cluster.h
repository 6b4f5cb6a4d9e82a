// tests/ec_offload/run/graph_cluster.h — the nodes of a graph on one thread, over any link of the
// fabric.
//
// What:      GraphCluster has a device for each node, loads a graph (a NodeRun at every node that
//            has a part in it), and runs it turn by turn. Its clock moves a little each turn.
// Units:     bytes; nanoseconds of the cluster's clock.
// Ownership: the cluster owns everything.
// Threads:   one, but for a device's own.
// Errors:    what cannot be opened fails a RING_CHECK; waits are bounded by a deadline that only a
//            hang reaches.
#ifndef RING_TESTS_EC_OFFLOAD_RUN_GRAPH_CLUSTER_H_
#define RING_TESTS_EC_OFFLOAD_RUN_GRAPH_CLUSTER_H_

#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/graph/node_run.h"
#include "rdma/faulty/faulty_device.h"
#include "tests/contract/fabric_harness.h"

namespace ring::ec_offload {

struct GraphClusterOptions {
  rdma::LinkKind link = rdma::LinkKind::kLocal;
  InecThresholds thresholds = InecThresholds::Always(InecWay::kCoherent);
  bool calculate_on_host = false;
  bool faulty = false;  // each device is behind a FaultyDevice
  std::function<std::unique_ptr<rdma::Calculator>(std::size_t vertex,
                                                  std::unique_ptr<rdma::Calculator>)>
      replace_calculator = nullptr;
};

class GraphCluster {
 public:
  static constexpr std::uint64_t kTimeoutNs = 3'000'000'000;

  explicit GraphCluster(const GraphClusterOptions& options) : options_(options) {}
  ~GraphCluster() { runs_.clear(); }

  // Takes the place of the graph before; connects its nodes.
  void Load(const Graph& graph);
  // Disconnects all nodes that are left, and connects all anew: those that were killed, too.
  void Reconnect();
  void Kill(NodeId node);

  // One run from sources in the memory to results in it. The first error, by node.
  // is_stuck: the run cannot get on any more. Its deadline comes then, and not before, however long
  // it takes the run to get there.
  absl::Status Run(StripeMemory& memory, absl::FunctionRef<bool()> is_stuck = Never);
  // The same in steps.
  void Fill(const StripeMemory& memory);
  absl::Status Prepare();
  void Start();
  absl::Status Finish(absl::FunctionRef<bool()> is_stuck = Never);
  void TakeResults(StripeMemory& memory);

  bool RunUntil(absl::FunctionRef<bool()> condition);
  NodeRun& run(NodeId node) { return *runs_.at(node); }
  std::map<NodeId, std::unique_ptr<NodeRun>>& runs() { return runs_; }
  rdma::FaultyDevice* faulty(NodeId node) { return hosts_.at(node).faulty; }

 private:
  static bool Never() { return false; }
  struct TestClock final : public Clock {
    std::uint64_t NowNs() const override { return now_ns; }
    std::uint64_t now_ns = 1'000'000'000;
  };
  struct Host {
    std::unique_ptr<rdma::Device> device;
    rdma::FaultyDevice* faulty = nullptr;
    std::string address;
    std::string loop_address;
  };

  Host& HostOf(NodeId node);
  void MakeRun(NodeId node);
  void Connect();
  void Turn();

  GraphClusterOptions options_;
  TestClock clock_;
  std::unique_ptr<Graph> graph_;
  std::map<NodeId, Host> hosts_;
  std::map<NodeId, std::unique_ptr<NodeRun>> runs_;
};

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_RUN_GRAPH_CLUSTER_H_
