// ring/node/config/control_config.h — how a cluster agrees, and how fast it notices a loss.
//
// What:      ControlConfig: the keys of a configuration file that concern consensus, failure
//            detection and leases; CheckControl says what cannot be.
// Shape:     all but data_dir should be equal on all nodes. A lease is safe because both sides know
//            its length: nodes with other FenceTerms do not speak to each other.
// Units:     milliseconds.
// Ownership: values.
// Threads:   pure.
// Errors:    CheckControl names the key, and what to do.
// Source:    rules L1, L11, E5, E8, 10.6.
#ifndef RING_NODE_CONFIG_CONTROL_CONFIG_H_
#define RING_NODE_CONFIG_CONTROL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ring/cluster/view.h"

namespace ring::node {

// How a coordinator makes sure that its roles are still its own (L1).
enum class FenceKind : std::uint8_t {
  kLease,  // by the clock, which no host may stop
  kCheck,  // by a look at the voters behind each capture
};

struct ControlConfig {
  int voters = 0;  // the first of the nodes; 0: 5 from 5 nodes on, else 3 or 1
  std::uint32_t heartbeat_ms = 25;
  std::uint32_t detect_ms = 150;  // so long silent is failed; elections begin after as long, or
                                  // a tick later, if that is but twice heartbeat_ms
  std::uint32_t lease_ms = 100;   // a holder may serve so long after it asked
  std::uint32_t lag_ms = 100;     // a member that is so long behind begins anew (E5)
  FenceKind fence = FenceKind::kLease;
  cluster::OverrunPolicy overrun = cluster::OverrunPolicy::kStop;
  bool fail_over = true;
  std::string data_dir;  // of this process; empty: consensus is kept in memory

  // Silence of so many milliseconds is a failure; heartbeats and leases in the proportion of the
  // defaults.
  void SetDetection(std::uint32_t ms);
  int VoterCount(std::size_t node_count) const {
    return voters != 0 ? voters : cluster::DefaultVoterCount(node_count);
  }
  // How long a node may sleep without a look at its timers: what it promises in time (heartbeats,
  // renewals, detection) must not wait for a sleeper.
  std::uint64_t SleepNsMax() const;
  // L1: how long a lease is, in milliseconds; kFenceByCheck; 0: fail_over is off.
  std::uint32_t FenceTerms() const;
  // The consensus counts time in ticks. REQUIRES: CheckControl has no objection.
  std::uint64_t TickNs() const;
  std::uint64_t HeartbeatTicks() const;
  std::uint64_t DetectTicks() const;    // at least twice HeartbeatTicks
  std::uint64_t ElectionTicks() const;  // more than that
  friend bool operator==(const ControlConfig&, const ControlConfig&) = default;
};

inline constexpr std::uint32_t kFenceByCheck = 0xffff'ffff;
// For people.
std::string FenceTermsName(std::uint32_t terms);

inline constexpr std::uint32_t kHeartbeatMsMax = 1000;
inline constexpr std::uint32_t kDetectMsMin = 5;
inline constexpr std::uint32_t kDetectMsMax = 60'000;

// The key that is wrong, for a message that shows where it stands.
struct ControlProblem {
  std::string key;
  std::string what;
};
// Empty key: none.
ControlProblem CheckControl(const ControlConfig& config, std::size_t node_count);

}  // namespace ring::node

#endif  // RING_NODE_CONFIG_CONTROL_CONFIG_H_
