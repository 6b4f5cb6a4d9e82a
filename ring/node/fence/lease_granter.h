// ring/node/fence/lease_granter.h — what the leader keeps of leases: who may get one, and when a
// role may be taken from who had one.
//
// What:      LeaseGranter: the last grants, the reassignments that were begun, and who lost roles.
// Shape:     a reassignment is begun before it is proposed, waits until the last grant to its node
//            is over, is proposed, and ends with its outcome. Between beginning and end its node
//            gets no grant. A leader knows nothing of its predecessors' grants: for it each node
//            got one at its election.
// Units:     nanoseconds of the leader's clock, read when a grant is released, or later.
// Ownership: values.
// Threads:   thread-compatible; no clock, no I/O.
// Errors:    CheckGrant: kFailedPrecondition says why not.
// Source:    rules L1, L4, L9.
#ifndef RING_NODE_FENCE_LEASE_GRANTER_H_
#define RING_NODE_FENCE_LEASE_GRANTER_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "ring/cluster/cluster_command.h"
#include "ring/cluster/view.h"
#include "ring/node/fence/lease_message.h"

namespace ring::node {

// How much clocks differ at most, and what is added for what is not counted.
inline constexpr std::uint64_t kClockRatePpm = 1000;
inline constexpr std::uint64_t kLeaseMarginNs = 5'000'000;

// By when a lease that was released now is surely over at its holder.
constexpr std::uint64_t LeaseWaitNs(std::uint64_t lease_ns) {
  return lease_ns + lease_ns / 1'000'000 * (2 * kClockRatePpm) + kLeaseMarginNs;
}

class LeaseGranter {
 public:
  explicit LeaseGranter(std::uint64_t lease_ns) : wait_ns_(LeaseWaitNs(lease_ns)) {}

  // This server leads from now on. view: the one that it has applied.
  void OnElected(std::uint64_t now_ns, const cluster::View& view);
  // Another view was applied.
  void OnView(const cluster::View& before, const cluster::View& after);

  // Whether a lease may be released to the node now. REQUIRES: `view` has all that was committed
  // before the renewal came.
  absl::Status CheckGrant(const cluster::View& view, NodeId node,
                          const LeaseRenewal& renewal) const;
  void OnReleased(NodeId node, std::uint64_t now_ns) { released_[node] = now_ns; }

  // Whose roles the command takes away, or may; kNoNode: nobody's that may serve.
  static NodeId TakesFrom(const cluster::ClusterCommand& command, const cluster::View& view);
  void Begin(NodeId node) { ++reassigned_[node]; }
  void End(NodeId node);
  bool Reassigning(NodeId node) const { return reassigned_.contains(node); }
  // From when on no lease of the node is left, if no other is granted.
  std::uint64_t OverNs(NodeId node) const;

 private:
  std::uint64_t wait_ns_;
  std::uint64_t elected_ns_ = 0;
  std::uint32_t elected_view_epoch_ = 0;
  std::map<NodeId, std::uint64_t> released_;
  std::map<NodeId, int> reassigned_;
  std::map<NodeId, std::uint32_t> lost_;  // a coordinator role, with this view epoch
};

}  // namespace ring::node

#endif  // RING_NODE_FENCE_LEASE_GRANTER_H_
