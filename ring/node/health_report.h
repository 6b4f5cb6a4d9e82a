// ring/node/health_report.h — what a node says of its shards, for whoever sums up the health.
//
// What:      CollectHealth: for each shard that the node coordinates whether it serves, what it
//            waits for, who is named, how many values are away or lost; for the shards that it is a
//            member of, the values that it does not have yet. Reports travel as control messages.
// Ownership: values.
// Threads:   CollectHealth: the node's.
// Errors:    DecodeHealth: kInvalidArgument.
// Cost:      off the hot path; memgests x shards of the node.
#ifndef RING_NODE_HEALTH_REPORT_H_
#define RING_NODE_HEALTH_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/cluster/health_summary.h"

namespace ring::node {

class Node;

cluster::NodeHealth CollectHealth(Node& node);
std::string EncodeHealth(const cluster::NodeHealth& health);
absl::StatusOr<cluster::NodeHealth> DecodeHealth(absl::string_view bytes);

}  // namespace ring::node

#endif  // RING_NODE_HEALTH_REPORT_H_
