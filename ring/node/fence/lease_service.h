// ring/node/fence/lease_service.h — the leader's side of leases: grants them, and lets nobody
// take a role away before they are over.
//
// What:      LeaseService answers the control message Renew, and is the one way by which commands
//            get into the log of the leader.
// Shape:     a grant is a ReadIndex: it is released only after a quorum round that began when the
//            renewal was there, so a deposed leader grants nothing that its successor does not wait
//            for. A command that takes roles from a node which may serve waits for its lease.
// Ownership: borrows clock, state machine and replica.
// Threads:   one, the node's.
// Errors:    kUnavailable: not the leader, nothing happened; a proposal that waited when leadership
//            moved, too. kFailedPrecondition: no lease for this node now.
// Source:    rules L1, L4.
#ifndef RING_NODE_FENCE_LEASE_SERVICE_H_
#define RING_NODE_FENCE_LEASE_SERVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "consensus/replica.h"
#include "ring/base/clock.h"
#include "ring/cluster/cluster_command.h"
#include "ring/node/control/cluster_machine.h"
#include "ring/node/control/control_port.h"
#include "ring/node/fence/lease_granter.h"

namespace ring::node {

class LeaseService {
 public:
  // lease_ns: 0: no node holds leases, and nothing waits for them.
  LeaseService(const Clock* clock, const ClusterMachine* machine, std::uint64_t lease_ns)
      : clock_(clock), machine_(machine), lease_ns_(lease_ns), granter_(lease_ns) {}

  void set_replica(consensus::Replica* replica) { replica_ = replica; }
  // In the listener's call: the clock is read not before the election.
  void OnLeadership(bool leads);
  void OnView(const cluster::View& before, const cluster::View& after) {
    granter_.OnView(before, after);
  }

  void OnRenew(NodeId from, absl::string_view body, ControlReply reply);
  // bytes: the command's. REQUIRES: this server leads.
  void Propose(const cluster::ClusterCommand& command, std::string bytes, ControlReply reply);
  bool Reassigning(NodeId node) const { return granter_.Reassigning(node); }
  // Proposes what waited long enough; gives whether there was any.
  bool Progress(std::uint64_t now_ns);

 private:
  struct Waiting {
    NodeId node;
    std::string bytes;
    ControlReply reply;
  };

  void Release(NodeId node, const LeaseRenewal& renewal, ControlReply reply);
  void ProposeNow(NodeId reassigned, std::string bytes, ControlReply reply);

  const Clock* clock_;
  const ClusterMachine* machine_;
  consensus::Replica* replica_ = nullptr;
  std::uint64_t lease_ns_;
  LeaseGranter granter_;
  std::uint64_t tenure_ = 0;  // counts this server's
  std::vector<Waiting> waiting_;
};

}  // namespace ring::node

#endif  // RING_NODE_FENCE_LEASE_SERVICE_H_
