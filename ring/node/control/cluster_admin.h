// ring/node/control/cluster_admin.h — the operators' port over the nodes of this process.
//
// What:      StartClusterAdmin gives the nodes their first view and returns the AdminPort:
//            catalogue changes, statistics, scrub.
// Ownership: borrows the reactors, which outlive it.
// Threads:   the port's callers are any thread but a reactor's.
// Errors:    as AdminPort says.
// Source:    rules G10, G11, X6.
#ifndef RING_NODE_CONTROL_CLUSTER_ADMIN_H_
#define RING_NODE_CONTROL_CLUSTER_ADMIN_H_

#include <memory>
#include <vector>

#include "ring/node/admin_port.h"
#include "ring/node/reactor.h"

namespace ring::node {

absl::StatusOr<std::unique_ptr<AdminPort>> StartClusterAdmin(
    std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view);

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CLUSTER_ADMIN_H_
