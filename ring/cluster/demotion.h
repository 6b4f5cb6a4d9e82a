// ring/cluster/demotion.h — whether members may lose their part in a group because they lag.
//
// What:      CheckDemotion: a role that is demoted begins the next epoch with nothing, and joins
//            again. So it may be one only if the others have everything, and are enough to go on.
// Threads:   pure.
// Errors:    kInvalidArgument: no such redundant roles. kFailedPrecondition: not now, and why.
// Source:    rules E5, S13.
#ifndef RING_CLUSTER_DEMOTION_H_
#define RING_CLUSTER_DEMOTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

// roles: a mask, not empty.
absl::Status CheckDemotion(const View& view, GroupId group, RoleMask roles);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_DEMOTION_H_
