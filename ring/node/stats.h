// ring/node/stats.h — what one node counts, and the sum over a cluster.
//
// What:      CollectStats takes a node's counters; reports travel as control messages; AddReport
//            sums them.
// Shape:     a report has the node's own numbers and its part of every memgest's.
// Units:     bytes and counts. Resident bytes are those of pages that were touched and not given
//            back, as heaps and tables count them themselves; of a log's ring all of it.
// Ownership: values.
// Threads:   CollectStats: the node's.
// Errors:    DecodeReport: kInvalidArgument.
// Cost:      off the hot path: a look at each heap's map of pages; no system call.
#ifndef RING_NODE_STATS_H_
#define RING_NODE_STATS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/node/admin_port.h"

namespace ring::node {

class Node;

struct NodeReport {
  NodeStats node;
  std::vector<MemgestStats> memgests;  // not DELETED, by id
};

NodeReport CollectStats(Node& node);
std::string EncodeReport(const NodeReport& report);
absl::StatusOr<NodeReport> DecodeReport(absl::string_view bytes);
// Keeps both lists in order of ids.
void AddReport(const NodeReport& report, ClusterStats* cluster);

}  // namespace ring::node

#endif  // RING_NODE_STATS_H_
