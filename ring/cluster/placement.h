// ring/cluster/placement.h — who inherits a role, and which groups thereby enter a new epoch.
//
// What:      Vacate, FillVacant, RaiseEpochs: the three steps of a change of roles, on a view that
//            is being made.
// Shape:     a node holds at most one role of a group (L10). Nodes are tried in the order of their
//            ids, each takes the lowest vacant role of every group in which it holds none: so one
//            spare inherits all roles of one lost node, and coordinators come before redundant
//            roles when there are not nodes enough. A start that was only silent takes its former
//            role if that is vacant: in another one it has to join from nothing.
// Threads:   pure.
// Errors:    RaiseEpochs: kResourceExhausted naming the group.
// Source:    rule L10; step 1 of an epoch change; docs/OPERATIONS.md, "When a node dies".
#ifndef RING_CLUSTER_PLACEMENT_H_
#define RING_CLUSTER_PLACEMENT_H_

#include "absl/status/status.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

void Vacate(View* view, NodeId node);
// Nodes that are up and were heard of take vacant roles.
void FillVacant(View* view);
int VacantCount(const View& view);
// Every group whose holders differ from `before` gets the next epoch, and forgets what was said of
// the last one (demoted roles, an operator's force). A node that is heard of for the first time in
// a group that was never normal changes nothing: nobody can hold anything of it.
absl::Status RaiseEpochs(const View& before, View* after);
absl::Status RaiseEpoch(GroupId group, View* view);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_PLACEMENT_H_
