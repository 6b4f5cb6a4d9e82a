// ring/node/config/link_policy.h — which transport two nodes talk by, and where.
//
// What:      LinkPolicy: what the configuration allows between two nodes; MayUse, Offers and
//            Requires: what that makes of one node. ChooseLink: the address to connect to, and why
//            that one. CheckTransport: the first pair of nodes that cannot meet as the
//            configuration says.
// Shape:     a node's own transport goes before that of [node], for all links of that node; of two
//            nodes that each have one, auto gives way, and two others must be equal. A link is
//            never made by another transport than its policy allows.
// Ownership: values.
// Threads:   pure.
// Errors:    an empty address: there is no link, and why says so.
// Source:    docs/OPERATIONS.md "Transports".
#ifndef RING_NODE_CONFIG_LINK_POLICY_H_
#define RING_NODE_CONFIG_LINK_POLICY_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "ring/cluster/view.h"
#include "ring/node/config/config.h"

namespace ring::node {

absl::string_view TransportName(Transport transport);

// Of a link between two nodes, or of what a node is asked for itself (a == b); a node that the
// configuration does not have has none of its own. nullopt: their own transports differ.
std::optional<Transport> LinkPolicy(const NodeConfig& config, NodeId a, NodeId b);

// Whether some link of the node may be of this kind; whether it also has an address of it, and so
// listens there, for clients too; whether some link of it can be of no other kind.
// REQUIRES: kind is not kAuto.
bool MayUse(const NodeConfig& config, NodeId node, Transport kind);
bool Offers(const NodeConfig& config, NodeId node, Transport kind);
bool Requires(const NodeConfig& config, NodeId node, Transport kind);

struct LinkChoice {
  std::string address;  // empty: none
  std::string why;      // for people
  friend bool operator==(const LinkChoice&, const LinkChoice&) = default;
};

// self.rdma_address is empty where its device did not open. auto takes rdma to who said, in the
// view, that its own did: before that nobody knows, and who is not reached cannot say it.
LinkChoice ChooseLink(const cluster::NodeInfo& self, const cluster::NodeInfo& peer,
                      Transport policy);

// Whether the second address of a node is of another transport than the first; not if one is empty.
bool IsOtherTransport(absl::string_view address, absl::string_view other);

struct TransportProblem {
  NodeId first;   // whose own transport it is about; kNoNode: that of [node]
  NodeId second;  // whose own it differs from; kNoNode: none
  std::string what;
};
std::optional<TransportProblem> CheckTransport(const NodeConfig& config);

}  // namespace ring::node

#endif  // RING_NODE_CONFIG_LINK_POLICY_H_
