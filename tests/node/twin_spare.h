// tests/node/twin_spare.h — the spare of a cluster whose other nodes are real: it answers as a test
// says.
//
// What:      TwinSpare is node `id` on the control plane: it takes views until one comes that it is
//            told to vanish at, and comes back when it is told to, with what it knew.
// Threads:   one of its own, which owns device and port; the rest is the test's.
// Errors:    what cannot be opened fails a RING_CHECK.
#ifndef RING_TESTS_NODE_TWIN_SPARE_H_
#define RING_TESTS_NODE_TWIN_SPARE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/boot_clock.h"
#include "ring/base/check.h"
#include "ring/base/sync.h"
#include "ring/base/wire.h"
#include "ring/cluster/view.h"
#include "ring/node/config/config.h"
#include "ring/node/control/control_change.h"
#include "ring/node/control/control_port.h"
#include "ring/node/control/drain_message.h"
#include "tests/support/await.h"

namespace ring::node::testing {

class TwinSpare {
 public:
  using State = protocol::MemgestState;

  TwinSpare(const NodeConfig& config, NodeId id)
      : config_(config), id_(id), thread_([this] { Run(); }) {}
  ~TwinSpare() {
    stop_.store(true);
    thread_.join();
  }

  // Once, when a view comes in which the memgest is in this state: the view is not taken.
  void VanishAt(const std::string& memgest, State state) {
    MutexLock lock(mutex_);
    vanish_at_ = {memgest, state};
  }
  void ComeBack() { away_.store(false); }
  // So many questions for what drains are answered as by a node with a shard between two epochs.
  void RefuseDrains(int count) { drains_refused_.store(count); }
  // The memgest's states as they were shown, each change once.
  std::vector<State> Seen(const std::string& memgest) {
    MutexLock lock(mutex_);
    std::vector<State> states;
    for (const cluster::View& view : seen_) {
      for (const protocol::MemgestDescriptor& one : view.memgests) {
        if (one.name == memgest && (states.empty() || states.back() != one.state))
          states.push_back(one.state);
      }
    }
    return states;
  }

 private:
  void Run() {
    rdma::SoftDeviceOptions options;
    options.name = "twin-spare";
    options.clock = &clock_;
    absl::StatusOr<std::unique_ptr<rdma::Device>> device = rdma::OpenSoftDevice(options);
    RING_CHECK(device.ok()) << device.status();
    device_ = *std::move(device);
    const auto listening = device_->Listen(absl::StrCat("tcp:", config_.nodes[id_.value()].data));
    RING_CHECK(listening.ok()) << listening.status();
    while (!stop_.load()) {
      if (away_.load()) port_.reset();
      if (!away_.load() && port_ == nullptr) OpenPort();
      device_->Progress();
      rdma::ConnectionEvent event;
      while (device_->PollEvent(&event)) {
        if (event.kind != rdma::ConnectionEvent::Kind::kConnectRequest) {
          if (port_ != nullptr) port_->OnEvent(event, clock_.NowNs());
        } else if (port_ == nullptr) {
          device_->Reject(event.request, "away");
        } else {
          port_->OnConnectRequest(event.request, event.private_data);
        }
      }
      if (port_ != nullptr) port_->Progress(clock_.NowNs());
      ring::testing::LetOthersRun();
    }
    port_.reset();
    device_.reset();
  }

  void OpenPort() {
    ControlPort::Options options;
    options.device = device_.get();
    options.node = id_;
    options.incarnation = Incarnation(77);
    options.cluster = cluster::ClusterHash(config_.cluster_name, config_.s, config_.d);
    options.fence = config_.control.FenceTerms();
    options.node_count = config_.nodes.size();
    absl::StatusOr<std::unique_ptr<ControlPort>> port = ControlPort::Create(options);
    RING_CHECK(port.ok()) << port.status();
    port_ = *std::move(port);
    port_->Handle(ControlType::kPing,
                  [this](NodeId, absl::string_view, ControlReply reply) { reply(Epoch()); });
    port_->Handle(ControlType::kView, [this](NodeId, absl::string_view body, ControlReply reply) {
      OnView(body, std::move(reply));
    });
    port_->Handle(ControlType::kDrain, [this](NodeId, absl::string_view, ControlReply reply) {
      if (drains_refused_.load() > 0) {
        --drains_refused_;
        return reply(absl::UnavailableError("group=0 shard=0 is not served yet"));
      }
      reply(EncodeDrainAnswer({Incarnation(77), {}}));
    });
  }

  void OnView(absl::string_view body, ControlReply reply) {
    const absl::StatusOr<cluster::View> view = cluster::DecodeView(body);
    RING_CHECK(view.ok()) << view.status();
    MutexLock lock(mutex_);
    for (const protocol::MemgestDescriptor& one : view->memgests) {
      if (!vanish_at_.has_value() || one.name != vanish_at_->first ||
          one.state != vanish_at_->second)
        continue;
      vanish_at_.reset();
      away_.store(true);
      return;
    }
    if (view->epoch > epoch_) {
      epoch_ = view->epoch;
      seen_.push_back(*view);
    }
    reply(Epoch());
  }

  std::string Epoch() const {
    ByteWriter out;
    out.Put(epoch_);
    return out.Take();
  }

  const NodeConfig config_;
  const NodeId id_;
  BootClock clock_;
  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<ControlPort> port_;
  std::uint32_t epoch_ = 1;
  std::atomic<bool> away_{false};
  std::atomic<int> drains_refused_{0};
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  std::optional<std::pair<std::string, State>> vanish_at_ ABSL_GUARDED_BY(mutex_);
  std::vector<cluster::View> seen_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_TWIN_SPARE_H_
