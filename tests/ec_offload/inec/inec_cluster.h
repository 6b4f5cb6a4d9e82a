// tests/ec_offload/inec/inec_cluster.h — nodes with INEC primitives, connected over any link of the
// fabric.
//
// What:      InecNode: a device with chunks, primitives and queue pairs; InecCluster: nodes of one
//            thread, edges between them, and turns. Its clock moves by itself, a little each turn,
//            or is the simulated network's.
// Units:     bytes; nanoseconds of the cluster's clock.
// Ownership: the cluster owns everything.
// Threads:   one, but for a device's own.
// Errors:    what cannot be opened fails a RING_CHECK; waits are bounded by a deadline that only a
//            hang reaches.
#ifndef RING_TESTS_EC_OFFLOAD_INEC_INEC_CLUSTER_H_
#define RING_TESTS_EC_OFFLOAD_INEC_INEC_CLUSTER_H_

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ec_offload/inec/primitives.h"
#include "rdma/faulty/faulty_device.h"
#include "tests/contract/fabric_harness.h"

namespace ring::ec_offload {

struct InecClusterOptions {
  rdma::LinkKind link = rdma::LinkKind::kLocal;
  InecThresholds thresholds = InecThresholds::Always(InecWay::kCoherent);
  bool calculate_on_host = false;
  std::uint32_t depth = 64;
  bool faulty = false;  // each device is behind a FaultyDevice
};

class InecNode {
 public:
  // number: of several cards, every other node has the second one.
  InecNode(const InecClusterOptions& options, std::size_t number, rdma::sim::SimNetwork* network,
           const Clock* clock);
  // So many bytes that no one else has, zeroed.
  rdma::Sge Chunk(std::size_t size);
  InecPrimitives& inec() { return *inec_; }
  rdma::Device& device() { return *side_.device; }
  rdma::FaultyDevice* faulty() { return faulty_; }
  std::uint64_t AddressOf(const rdma::Sge& sge) const {
    return reinterpret_cast<std::uint64_t>(sge.address);
  }
  std::uint32_t rkey() const { return side_.region->rkey(); }
  // Every outcome so far.
  std::vector<InecOutcome> outcomes;
  // False: it stands still, its device too.
  bool runs = true;

 private:
  friend class InecCluster;
  rdma::Side side_;
  rdma::FaultyDevice* faulty_ = nullptr;
  std::string address_;  // for peers
  std::unique_ptr<rdma::CompletionQueue> idle_cq_;
  std::unique_ptr<InecPrimitives> inec_;
  std::size_t used_ = 0;
};

// One direction of a connection: `from` sends, `to` receives.
struct InecEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::unique_ptr<rdma::CompletionQueue> own_cq;  // null: shared with another edge
  rdma::CompletionQueue* recv_cq = nullptr;
  std::unique_ptr<rdma::QueuePair> out;
  std::unique_ptr<rdma::QueuePair> in;
};

class InecCluster {
 public:
  InecCluster(std::size_t node_count, const InecClusterOptions& options);
  ~InecCluster();

  InecNode& node(std::size_t i) { return *nodes_[i]; }
  InecEdge& edge(std::size_t i) { return *edges_[i]; }
  rdma::sim::SimNetwork* network() { return network_.get(); }
  // recv_cq: null: a queue of its own. Gives the edge's number.
  std::size_t Connect(std::size_t from, std::size_t to, rdma::CompletionQueue* recv_cq = nullptr);
  // Destroys both ends and connects anew.
  void Reconnect(std::size_t edge);
  // The node and its device are gone; its edges' other ends stay.
  void Kill(std::size_t node);

  void Turn();
  bool RunUntil(absl::FunctionRef<bool()> condition);
  // So many outcomes at the node.
  bool RunUntilOutcomes(std::size_t node, std::size_t count) {
    return RunUntil([&] { return nodes_[node]->outcomes.size() >= count; });
  }
  std::uint64_t now_ns() const { return network_ != nullptr ? network_->now_ns() : clock_.now_ns; }
  void PassTime(std::uint64_t ns);

  void PostReceive(std::size_t edge, const rdma::Sge& into);
  // SENDs a chunk over an edge, from outside the primitives.
  void Send(std::size_t edge, const rdma::Sge& chunk);
  // Takes successful receives off the edge's queue; gives how many so far.
  std::size_t Received(std::size_t edge);

 private:
  struct TestClock final : public Clock {
    std::uint64_t NowNs() const override { return now_ns; }
    std::uint64_t now_ns = 1'000'000'000;
  };
  void TurnOf(std::size_t node);
  void Accept(std::size_t node, const rdma::ConnectionEvent& event);

  InecClusterOptions options_;
  TestClock clock_;
  std::unique_ptr<rdma::sim::SimNetwork> network_;
  std::vector<std::unique_ptr<InecNode>> nodes_;
  std::vector<std::unique_ptr<InecEdge>> edges_;
  std::vector<std::size_t> received_;
};

// The requests of one SEND for each chunk, and their channels.
class InecSends {
 public:
  void Add(rdma::QueuePair* qp, const rdma::Sge& chunk, bool after_calculation = true);
  // The same as WRITE_WITH_IMM.
  void AddWrite(rdma::QueuePair* qp, const rdma::Sge& chunk, std::uint64_t remote_address,
                std::uint32_t rkey, std::uint32_t imm);
  InecStripe stripe();

 private:
  struct Item {
    rdma::Sge sge;
    rdma::WorkRequest request;
    rdma::QueuePair* qp = nullptr;
    bool after_calculation = true;
  };
  std::vector<std::unique_ptr<Item>> items_;
  std::vector<InecChannel> channels_;
};

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_INEC_INEC_CLUSTER_H_
