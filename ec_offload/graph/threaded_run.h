// ec_offload/graph/threaded_run.h — all nodes of a graph in this process, each with a NIC and a
// host thread of its own.
//
// What:      ThreadedRun: opens an engine device (rdma/engine) and a thread for every node that
//            has a part in the graph, connects them, and runs the graph as often as wanted. For
//            tests and measurements.
// Shape:     a run begins when all nodes are prepared; what it took is the time from the first
//            Start to the last node's end, as their threads saw it. A host thread that has nothing
//            to do sleeps until its device wakes it, or does other work in slices.
// Units:     nanoseconds of the steady clock; bytes.
// Ownership: owns devices, memory and threads.
// Threads:   one caller; the nodes' are inside.
// Errors:    Create: what a device, a NodeRun or connecting refuses, with the node. Run: the
//            first error by the number of the node, and how many nodes failed; Reconnect then.
// Cost:      two threads a node, which share the machine's processors: more of them than processors
//            cost a change of threads for every step.
#ifndef RING_EC_OFFLOAD_GRAPH_THREADED_RUN_H_
#define RING_EC_OFFLOAD_GRAPH_THREADED_RUN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/graph/node_run.h"
#include "ec_offload/inec/hybrid.h"
#include "rdma/engine/engine_device.h"
#include "rdma/fabric.h"
#include "ring/base/sync.h"

namespace ring::ec_offload {

enum class GraphLink : std::uint8_t { kLocal = 0, kShm = 1, kTcp = 2 };

struct ThreadedRunOptions {
  GraphLink link = GraphLink::kLocal;
  InecThresholds thresholds = MeasuredThresholds();
  bool calculate_on_host = false;
  // Turns without work before a host thread, or a NIC's, sleeps.
  std::uint32_t host_spin_turns = 20;
  std::uint32_t nic_spin_turns = 200;
  // Not 0: a host thread computes something else for so long between two looks at its queues,
  // instead of sleeping, and at the lowest priority: a NIC has its own processor.
  std::uint64_t busy_slice_ns = 0;
  std::uint64_t connect_timeout_ns = 20'000'000'000;
  std::function<std::unique_ptr<rdma::Calculator>(std::size_t vertex,
                                                  std::unique_ptr<rdma::Calculator>)>
      replace_calculator = nullptr;
};

// Of all nodes together.
struct ThreadedRunCounters {
  std::uint64_t runs = 0;
  std::uint64_t interventions = 0;
  std::uint64_t submits = 0;
  std::uint64_t posts = 0;
  std::uint64_t polls = 0;  // that found something
  std::uint64_t wakeups = 0;
  std::uint64_t busy_slices = 0;
};

class ThreadedRun {
 public:
  static absl::StatusOr<std::unique_ptr<ThreadedRun>> Create(const Graph& graph,
                                                             const ThreadedRunOptions& options);
  ~ThreadedRun();
  ThreadedRun(const ThreadedRun&) = delete;
  ThreadedRun& operator=(const ThreadedRun&) = delete;

  std::size_t node_count() const { return workers_.size(); }
  // A source or a result of the graph, between two runs.
  absl::Span<std::byte> chunk(const ChunkPlace& place);
  // Gives what the run took.
  absl::StatusOr<std::uint64_t> Run(std::uint64_t timeout_ns);
  // All nodes disconnect, and connect anew.
  absl::Status Reconnect();

  // Between two runs.
  ThreadedRunCounters counters() const;
  // What the last run gave at each node that failed.
  std::vector<absl::Status> errors() const;

 private:
  enum class Command : std::uint32_t {
    kNone = 0,
    kOpen = 1,
    kConnect = 2,
    kRun = 3,
    kDisconnect = 4,
    kStop = 5,
  };
  struct Worker {
    NodeId node = 0;
    std::unique_ptr<rdma::EngineDevice> device;
    std::unique_ptr<NodeRun> run;
    absl::Status status;  // of the last command
    std::uint64_t started_ns = 0;
    std::uint64_t ended_ns = 0;
    std::uint64_t busy_slices = 0;
    std::uint64_t busy_value = 1;
    std::atomic<Command> command{Command::kNone};
    std::thread thread;
  };

  ThreadedRun(const Graph& graph, const ThreadedRunOptions& options)
      : graph_(graph), options_(options) {}
  absl::Status CommandAll(Command command);
  absl::Status FirstError() const;
  // --- the node's thread ---
  void Work(Worker& worker);
  absl::Status Open(Worker& worker);
  absl::Status Connect(Worker& worker);
  absl::Status RunOnce(Worker& worker);
  void Wait(Worker& worker, std::uint64_t until_ns);
  void DoOtherWork(Worker& worker);

  Graph graph_;
  ThreadedRunOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by node
  Mutex addresses_mutex_;
  NodeAddresses addresses_ ABSL_GUARDED_BY(addresses_mutex_);
  std::uint64_t deadline_ns_ = 0;
  std::atomic<std::uint32_t> busy_workers_{0};  // that have not ended the present command
  std::atomic<std::uint32_t> unprepared_{0};
  std::atomic<std::uint32_t> started_{0};  // the number of the last run that may start
  std::uint32_t run_number_ = 0;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_THREADED_RUN_H_
