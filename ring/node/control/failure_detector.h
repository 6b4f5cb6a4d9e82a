// ring/node/control/failure_detector.h — the leader's opinion on who is there.
//
// What:      FailureDetector: from how long each node was silent, which nodes are to be failed.
// Shape:     silence is counted in ticks since the node's server was last heard by consensus, or,
//            if it has none yet, since this leader's tenure began; never from before this start of
//            the node registered, which may be agreed upon before the next heartbeat. A lost
//            connection is a hint that halves the patience (L4), and is no proof. One that never
//            was is none: who leads soon after it started may be what others are about to reach, at
//            the pace at which they tried its former start, so these have that much more time. Who
//            answered the last heartbeat was silent for no longer than from one to the next, and is
//            never failed. But for one that is deaf: it answers, and for kStuckDetections times
//            that patience nothing that was committed became durable there, so that it knows no
//            newer view. A leader that did not hear a majority of the voters itself counts nobody's
//            silence meanwhile: it may be the one that was cut off. A node that was never heard of
//            is not failed: it holds nothing.
// Ownership: values.
// Threads:   thread-compatible; no clock.
// Errors:    none.
// Source:    rules L1 (detection), L4, L8.
#ifndef RING_NODE_CONTROL_FAILURE_DETECTOR_H_
#define RING_NODE_CONTROL_FAILURE_DETECTOR_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "consensus/ready.h"
#include "ring/cluster/view.h"

namespace ring::node {

class FailureDetector {
 public:
  static constexpr std::uint64_t kStuckDetections = 10;
  enum class Link : std::uint8_t { kNever = 0, kLost = 1, kUp = 2 };
  // reach_ticks: in which a node that is there is reached. REQUIRES: detect_ticks >= 2 *
  // heartbeat_ticks > 0.
  FailureDetector(NodeId self, std::uint64_t detect_ticks, std::uint64_t heartbeat_ticks,
                  std::uint64_t reach_ticks)
      : self_(self),
        detect_ticks_(detect_ticks),
        unreached_ticks_(detect_ticks + reach_ticks),
        half_ticks_(std::max(detect_ticks / 2, heartbeat_ticks + 1)) {}

  // A new tenure: nobody is silent yet.
  void Reset() {
    patient_since_ = tenure_ticks_ = 0;
    present_.clear();
  }
  void Tick() { ++tenure_ticks_; }
  // Nodes that are up in the view and are to be failed now. To be asked after every tick.
  std::vector<NodeId> Silent(const cluster::View& view,
                             const std::vector<consensus::PeerStatus>& peers,
                             absl::FunctionRef<Link(NodeId)> link);

 private:
  // A node that is up: which start of it, and since which tick of the tenure.
  struct Present {
    Incarnation incarnation;
    std::uint64_t since = 0;
  };
  std::uint64_t PatienceWith(Link link) const;
  std::uint64_t PresentSince(const cluster::NodeInfo& node, bool first);
  bool HearsMajority(const std::vector<consensus::PeerStatus>& peers) const;

  NodeId self_;
  std::uint64_t detect_ticks_;
  std::uint64_t unreached_ticks_;
  std::uint64_t half_ticks_;  // of it, and longer than the time between two heartbeats
  std::uint64_t tenure_ticks_ = 0;
  std::uint64_t patient_since_ = 0;  // tick of the tenure up to which no silence counts
  absl::flat_hash_map<NodeId, Present> present_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_FAILURE_DETECTOR_H_
