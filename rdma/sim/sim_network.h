// rdma/sim/sim_network.h — a fabric in one thread, on virtual time, from one seed.
//
// What:      SimNetwork owns time, randomness, the processes that are there (hosts), the addresses
//            at which they listen, who can reach whom, and what was injected. SimDevice::Open
//            opens a device on it: rdma/soft with connections of the network instead of the
//            system.
// Shape:     a NIC works while its process is paused, and dies with it. Requests of a queue pair
//            arrive in order, those of different ones freely. What was sent before a process
//            crashed may still arrive: some requests, the last one torn.
// Units:     nanoseconds of simulated time.
// Ownership: outlives its devices; borrows hosts.
// Threads:   one.
// Errors:    see fabric.h.
// Cost:      a few heap operations a request; no system call but for memory.
// Source:    fault classes F1 to F15; FoundationDB's and TigerBeetle's simulators for the idea.
#ifndef RING_RDMA_SIM_SIM_NETWORK_H_
#define RING_RDMA_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/fabric.h"
#include "rdma/sim/event_queue.h"
#include "rdma/sim/sim_options.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/random.h"

namespace ring::rdma::soft {
class SoftDevice;
}

namespace ring::rdma::sim {

class SimConnection;
class SimEndpoint;

// A process: what it is told of its device.
class SimHost {
 public:
  virtual ~SimHost() = default;
  // Something was written to its memory or queues: who polls sees it in its next turn.
  virtual void OnDelivery() {}
  // What would make the device's event_fd readable: who sleeps is to look.
  virtual void OnWake() {}
};

using HostId = std::uint32_t;
inline constexpr HostId kNoHost = ~HostId{0};  // reaches all, and is reached by all

class SimNetwork {
 public:
  SimNetwork(std::uint64_t seed, const SimOptions& options);
  ~SimNetwork();

  EventQueue& events() { return events_; }
  const Clock& clock() const { return events_.clock(); }
  std::uint64_t now_ns() const { return events_.now_ns(); }
  // May be changed at any time, e.g. to end all faults.
  SimOptions& options() { return options_; }
  FaultCounts& faults() { return faults_; }

  // host: null: nobody is told. It outlives the network, or is taken off by Crash or ForgetHost.
  HostId AddHost(SimHost* host);
  void ForgetHost(HostId host) { hosts_[host].process = nullptr; }
  // The process and its NIC stop in mid-work (F1). What is left of it may be destroyed afterwards;
  // nobody hears of that.
  void Crash(HostId host);
  // The connections between two processes fail, as if their NICs had given up (F8).
  void Break(HostId one, HostId other);
  // One of them, whose first private data `chosen` is true of. False: there is none.
  bool BreakOne(HostId one, HostId other,
                const std::function<bool(absl::string_view private_data)>& chosen);
  bool crashed(HostId host) const { return hosts_[host].crashed; }

  // Until then no message gets from one host to another (F6). Both ways: call it twice. Of several
  // reasons the last one to end counts.
  static constexpr std::uint64_t kUntilHealed = std::numeric_limits<std::uint64_t>::max();
  void Block(HostId from, HostId to, std::uint64_t until_ns = kUntilHealed);
  bool Reaches(HostId from, HostId to) const;
  // A process that starts again is where the former one was: it reaches no more than that did.
  void TakePlaceOf(HostId former, HostId now);
  void HealAll() { blocked_until_ns_.clear(); }

  // What a host sends and is sent in handshakes (private data) is changed on its way, as a process
  // of another release would write it (F14). null: it is not.
  using HandshakeFilter = std::function<void(std::vector<std::byte>*)>;
  void SetHandshakeFilter(HostId host, HandshakeFilter filter) {
    hosts_[host].filter = std::move(filter);
  }

  // Of which connections, by their first private data, payloads may be damaged (F10); null: of all.
  void SetFlipFilter(std::function<bool(absl::string_view private_data)> filter) {
    flip_filter_ = std::move(filter);
  }

  // --- for connections and endpoints ---
  bool MayFlip(absl::string_view private_data) const {
    return flip_filter_ == nullptr || flip_filter_(private_data);
  }
  // Of one or both the filter, once.
  void FilterHandshake(HostId one, HostId other, std::vector<std::byte>* bytes) const;
  SeededRandom& random() { return random_; }
  bool Chance(std::uint32_t ppm) { return ppm != 0 && random_.Below(1'000'000) < ppm; }
  std::uint64_t Delay();
  SimHost* process(HostId host) const { return hosts_[host].process; }
  std::uint32_t AddConnection(const std::shared_ptr<SimConnection>& connection);
  void DropDevice(const soft::SoftDevice* device);
  bool AddListener(const std::string& name, SimEndpoint* endpoint);
  void RemoveListener(const std::string& name, const SimEndpoint* endpoint);
  SimEndpoint* FindListener(const std::string& name) const;
  // Where somebody listens at the name, or did last; kNoHost: nobody ever did.
  HostId HostAt(const std::string& name) const;

  // --- what happened, as one number: equal runs have equal hashes ---
  void Trace(std::uint64_t a, std::uint64_t b, std::uint64_t c);
  std::uint64_t trace_hash() const { return trace_hash_; }
  // Every traced event is written there as a line; null: nowhere.
  void set_trace_file(std::FILE* file) { trace_file_ = file; }

 private:
  struct HostState {
    SimHost* process = nullptr;
    bool crashed = false;
    HandshakeFilter filter;
  };

  EventQueue events_;
  SimOptions options_;
  FaultCounts faults_;
  SeededRandom random_;
  std::vector<HostState> hosts_;
  std::map<std::pair<HostId, HostId>, std::uint64_t> blocked_until_ns_;
  std::map<std::string, SimEndpoint*> listeners_;
  std::map<std::string, HostId> listened_;
  std::vector<std::weak_ptr<SimConnection>> connections_;
  std::uint32_t connection_count_ = 0;
  std::function<bool(absl::string_view private_data)> flip_filter_;
  std::uint64_t trace_hash_ = 0x9e3779b97f4a7c15;
  std::FILE* trace_file_ = nullptr;
};

}  // namespace ring::rdma::sim

#endif  // RING_RDMA_SIM_SIM_NETWORK_H_
