// ring/cluster/role_return.h — whether a role goes back to who held it when a shard last served.
//
// What:      CheckReturn, GiveBack: a shard that stopped gets back a member that was taken for lost
//            and has its values. In any other role they count for nothing.
// Shape:     who holds the role since then, and whatever role of the group the former holder was
//            given meanwhile, give way: neither may be named as a coordinator, or with all values
//            of a memgest, by the last record of any shard. So nothing is less protected by it.
// Threads:   pure.
// Errors:    kInvalidArgument: no such role. kFailedPrecondition: not now, and why.
// Source:    rules E8, I2, L1, L4.
#ifndef RING_CLUSTER_ROLE_RETURN_H_
#define RING_CLUSTER_ROLE_RETURN_H_

#include "absl/status/status.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

// REQUIRES: there are such a group and shard.
absl::Status CheckReturn(const View& view, GroupId group, ShardId shard, Role role);
// Whoever is without a role by that is given one that is vacant, by FillVacant. REQUIRES:
// CheckReturn says OK.
void GiveBack(GroupId group, ShardId shard, Role role, View* view);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_ROLE_RETURN_H_
