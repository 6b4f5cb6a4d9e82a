#include "tests/sim/sim_node.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/protocol/hello.h"

namespace ring::sim {
namespace {
constexpr std::uint64_t kTurnNs = 300;
}  // namespace

absl::StatusOr<std::shared_ptr<SimNode>> SimNode::Open(rdma::sim::SimNetwork* network,
                                                       const node::NodeConfig& config, NodeId id,
                                                       Random* random,
                                                       node::VoterStorage* storage) {
  std::shared_ptr<SimNode> self(new SimNode(network));
  self->host_ = network->AddHost(self.get());
  self->clock_ = std::make_unique<rdma::sim::DriftingClock>(&network->clock());
  const node::DeviceFactory open_device =
      [&self, network](
          const rdma::SoftDeviceOptions& options) -> absl::StatusOr<std::unique_ptr<rdma::Device>> {
    RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::sim::SimDevice> device,
                          rdma::sim::SimDevice::Open(network, self->host_, options));
    self->device_ = device.get();
    return device;
  };
  node::NodeOptions options;
  options.config = config;
  options.id = id;
  options.clock = self->clock_.get();
  options.random = random;
  options.host = "sim";
  options.open_device = &open_device;
  options.storage = storage;
  options.wake = [node = std::weak_ptr<SimNode>(self)] {
    if (const std::shared_ptr<SimNode> woken = node.lock(); woken != nullptr) woken->Touch();
  };
  // So few lines as a run has are one piece, built in one step: with a slow recovery they are many.
  if (config.recovery_rate == node::kRecoveryRateLowest) {
    options.lines_per_step = 1;
    options.snapshot_piece_size = 0;
  }
  RING_ASSIGN_OR_RETURN(std::unique_ptr<node::Node> node, node::Node::Open(options));
  self->info_ = node->info();
  node::ReactorOptions reactor;
  reactor.clock = self->clock_.get();
  reactor.sleep_ns_max = config.control.SleepNsMax();
  self->reactor_ = std::make_unique<node::Reactor>(reactor);
  self->reactor_->AddNode(std::move(node));
  self->Run(0);
  return self;
}

void SimNode::Begin(std::shared_ptr<const cluster::View> first) {
  node().ApplyView(std::move(first));
  Touch();
}

void SimNode::Close() {
  if (!up()) return;
  network_->ForgetHost(host_);
  ++serial_;
  reactor_.reset();
  device_ = nullptr;
}

void SimNode::Run(std::uint64_t delay_ns) {
  state_ = State::kRunning;
  network_->events().Schedule(std::max(network_->now_ns() + delay_ns, paused_until_ns_),
                              shared_from_this(), ++serial_);
}

void SimNode::OnEvent(std::uint64_t tag) {
  if (tag != serial_ || !up()) return;
  if (network_->now_ns() < paused_until_ns_) return Run(0);
  if (state_ == State::kPolling) return Sleep();
  if (state_ == State::kSleeping) reactor_->WakeUp();
  state_ = State::kRunning;
  Turn();
}

void SimNode::Turn() {
  ++turns_;
  at_work_ = true;
  idle_turns_ = reactor_->Turn() ? 0 : idle_turns_ + 1;
  at_work_ = false;
  if (idle_turns_ == 0) poll_ns_ = kPollNsMin;
  if (idle_turns_ < kIdleTurnsMax) return Run(kTurnNs + network_->random().Below(kTurnNs));
  state_ = State::kPolling;
  network_->events().Schedule(network_->now_ns() + poll_ns_, shared_from_this(), ++serial_);
  poll_ns_ = std::min(2 * poll_ns_, kPollNsMax);
}

void SimNode::Sleep() {
  state_ = State::kSleeping;
  woken_ = false;
  if (!reactor_->PrepareSleep() || woken_) {
    reactor_->WakeUp();
    return Run(kTurnNs);
  }
  network_->events().Schedule(network_->now_ns() + reactor_->sleep_ns_max(), shared_from_this(),
                              ++serial_);
}

void SimNode::OnDelivery() {
  idle_turns_ = 0;
  if (state_ == State::kPolling) Run(network_->random().Below(kTurnNs));
}

void SimNode::OnWake() {
  woken_ = true;
  idle_turns_ = 0;
  if (state_ == State::kPolling) return Run(network_->random().Below(kTurnNs));
  if (state_ != State::kSleeping) return;
  // Its thread comes to run.
  network_->events().Schedule(std::max(network_->now_ns() + 2'000, paused_until_ns_),
                              shared_from_this(), ++serial_);
}

void SimNode::Touch() { OnWake(); }

void SimNode::Pause(std::uint64_t until_ns) {
  network_->faults().Count(rdma::sim::FaultClass::kF5Pause);
  PauseLonger(until_ns);
}

void SimNode::PauseLonger(std::uint64_t until_ns) {
  paused_until_ns_ = std::max(paused_until_ns_, until_ns);
}

void SimNode::Speak(std::uint16_t version) {
  if (version == protocol::kProtocolVersion) return network_->SetHandshakeFilter(host_, nullptr);
  network_->faults().Count(rdma::sim::FaultClass::kF14Versions);
  network_->SetHandshakeFilter(host_, [version](std::vector<std::byte>* bytes) {
    if (bytes->size() < sizeof(protocol::HelloPrefix)) return;
    std::memcpy(bytes->data() + offsetof(protocol::HelloPrefix, version), &version,
                sizeof(version));
  });
}

void SimNode::Crash() {
  if (!up()) return;
  network_->Crash(host_);
  Close();
}

}  // namespace ring::sim
