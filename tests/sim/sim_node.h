// tests/sim/sim_node.h — one node process of a simulated cluster.
//
// What:      SimNode drives a Node by the reactor's own turns: while a turn does something, after
//            something was delivered, and when a timer is due; else it polls without taking time,
//            then sleeps as the reactor does. It can be paused, and crashed.
// Ownership: borrows the network, the configuration and a storage of its votes.
// Threads:   one.
// Errors:    Open: as Node::Open.
#ifndef RING_TESTS_SIM_SIM_NODE_H_
#define RING_TESTS_SIM_SIM_NODE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "rdma/sim/sim_device.h"
#include "rdma/sim/sim_network.h"
#include "ring/base/random.h"
#include "ring/node/reactor.h"

namespace ring::sim {

class SimNode final : public rdma::sim::SimHost,
                      public rdma::sim::EventTarget,
                      public std::enable_shared_from_this<SimNode> {
 public:
  static absl::StatusOr<std::shared_ptr<SimNode>> Open(rdma::sim::SimNetwork* network,
                                                       const node::NodeConfig& config, NodeId id,
                                                       Random* random,
                                                       node::VoterStorage* storage = nullptr);
  // Begins its part: with the view that every node computes from the configuration.
  void Begin(std::shared_ptr<const cluster::View> first);
  // Ends it in order; before the network goes.
  void Close();

  // REQUIRES: up.
  node::Node& node() { return *reactor_->nodes()[0]; }
  const cluster::NodeInfo& info() const { return info_; }
  rdma::sim::SimDevice& device() { return *device_; }
  rdma::sim::HostId host() const { return host_; }
  rdma::sim::DriftingClock& clock() { return *clock_; }
  bool up() const { return reactor_ != nullptr; }
  bool paused() const { return network_->now_ns() < paused_until_ns_; }
  // In the midst of a turn.
  bool at_work() const { return at_work_; }

  // After something was done to the node from outside its turns.
  void Touch();
  // The process stands still; its NIC does not (F5).
  void Pause(std::uint64_t until_ns);
  // The same, of a pause that was counted already.
  void PauseLonger(std::uint64_t until_ns);
  void Crash();
  // What it says in handshakes, and is told, is of this version of the protocol (F14).
  void Speak(std::uint16_t version);
  void OnEvent(std::uint64_t tag) override;
  void OnDelivery() override;
  void OnWake() override;

  std::uint64_t turns() const { return turns_; }

 private:
  enum class State { kRunning, kPolling, kSleeping };
  // In such a row nothing was found by what looks at only some of its rings each turn.
  static constexpr int kIdleTurnsMax = 16;
  // Who has something to do, and cannot, polls: less and less often, as nothing but time passes.
  static constexpr std::uint64_t kPollNsMin = 50'000;
  static constexpr std::uint64_t kPollNsMax = 1'000'000;

  explicit SimNode(rdma::sim::SimNetwork* network) : network_(network) {}
  void Run(std::uint64_t delay_ns);
  void Turn();
  void Sleep();

  rdma::sim::SimNetwork* network_;
  rdma::sim::HostId host_ = 0;
  std::unique_ptr<rdma::sim::DriftingClock> clock_;
  rdma::sim::SimDevice* device_ = nullptr;
  std::unique_ptr<node::Reactor> reactor_;
  cluster::NodeInfo info_;
  State state_ = State::kRunning;
  std::uint64_t serial_ = 0;  // of the event that is waited for; others are out of date
  std::uint64_t paused_until_ns_ = 0;
  bool woken_ = false;
  bool at_work_ = false;
  int idle_turns_ = 0;
  std::uint64_t poll_ns_ = kPollNsMin;
  std::uint64_t turns_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_NODE_H_
