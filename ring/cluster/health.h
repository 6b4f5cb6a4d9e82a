// ring/cluster/health.h — what an operator should know about a view, in words.
//
// What:      HealthWarnings(view): nodes that are down, roles without a holder, shards that do not
//            serve yet, memgests that are not protected or lost something, a consensus group that
//            survives fewer failures than the data (L11). None of it is a safety condition.
// Shape:     one line a finding; shards and memgests are summed up, not listed one by one.
// Threads:   pure.
// Errors:    none. REQUIRES: a valid view.
// Source:    rules L10, L11, E6, E8, S13.
#ifndef RING_CLUSTER_HEALTH_H_
#define RING_CLUSTER_HEALTH_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

// "up", "down", "draining", "removed".
absl::string_view StatusName(NodeStatus status);

std::vector<std::string> HealthWarnings(const View& view);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_HEALTH_H_
