// ring/node/config/added_node.h — a node that the configuration file does not name.
//
// What:      CheckAddedNode: whether what an operator says of a new node can be. JoinConfig: what
//            such a node starts from: the cluster's file, and its own entry, which the cluster
//            knows.
// Shape:     the file's nodes stay the first ones and are what every node begins with; those that
//            were added stand behind them, in the order of their numbers.
// Ownership: values.
// Threads:   pure.
// Errors:    kInvalidArgument names the field. JoinConfig: kNotFound (the cluster does not know the
//            name: add it, and try again), kFailedPrecondition (it was removed, or the file is not
//            this cluster's).
// Source:    docs/OPERATIONS.md "Adding a node".
#ifndef RING_NODE_CONFIG_ADDED_NODE_H_
#define RING_NODE_CONFIG_ADDED_NODE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ring/cluster/view.h"
#include "ring/node/config/config.h"

namespace ring::node {

// transport: of the cluster. Addresses as views have them.
absl::Status CheckAddedNode(const cluster::NodeInfo& info, Transport transport);

// view: as an old node knows it. host: of this machine (rdma::HostIdentity).
absl::Status JoinConfig(const cluster::View& view, absl::string_view name, const std::string& host,
                        NodeConfig* config);

}  // namespace ring::node

#endif  // RING_NODE_CONFIG_ADDED_NODE_H_
