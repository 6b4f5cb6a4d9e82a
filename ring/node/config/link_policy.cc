#include "ring/node/config/link_policy.h"

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::node {
namespace {

std::optional<Transport> OwnTransport(const NodeConfig& config, NodeId node) {
  if (node.value() >= config.nodes.size()) return std::nullopt;
  return config.nodes[node.value()].transport;
}

// Whether a link of this policy can be one of this kind. What is not forbidden between nodes is
// there for clients, too.
bool Permits(Transport policy, Transport kind) {
  switch (kind) {
    case Transport::kTcp:
      return policy != Transport::kShm;
    case Transport::kShm:
      return policy != Transport::kTcp;
    case Transport::kRdma:
      return policy == Transport::kAuto || policy == Transport::kRdma;
    case Transport::kAuto:
      break;
  }
  RING_CHECK(false) << "auto is no kind of link";
  return false;
}

const std::string& AddressOfKind(const NodeEntry& entry, Transport kind) {
  return kind == Transport::kTcp ? entry.data : kind == Transport::kShm ? entry.shm : entry.rdma;
}

// Why these two cannot meet as the policy says; empty: they can.
std::string WhyNot(const NodeEntry& a, const NodeEntry& b, Transport policy) {
  const std::string head = absl::StrCat("transport=", TransportName(policy), ", and node name=");
  if (policy == Transport::kTcp && (a.data.empty() || b.data.empty())) {
    return absl::StrCat(head, a.data.empty() ? a.name : b.name, " has no data address: add it");
  }
  if (policy == Transport::kRdma && (a.rdma.empty() || b.rdma.empty())) {
    return absl::StrCat(head, a.rdma.empty() ? a.name : b.name,
                        " has no rdma address: add rdma = \"HOST:PORT\"");
  }
  const bool shared = a.host == b.host && !a.shm.empty() && !b.shm.empty();
  if (policy == Transport::kShm && !shared) {
    return absl::StrCat(head, a.shm.empty() ? a.name : b.name,
                        " has no shm path or another host than name=", a.name,
                        ": all nodes must share one host");
  }
  if (policy == Transport::kAuto && !shared && (a.data.empty() || b.data.empty())) {
    return absl::StrCat(
        "nodes name=", a.name, " and name=", b.name,
        " have no transport in common: give both a data address, or one host and "
        "shm paths",
        a.rdma.empty() || b.rdma.empty() ? "" : "; for rdma alone say transport = \"rdma\"");
  }
  return "";
}

}  // namespace

absl::string_view TransportName(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return "auto";
    case Transport::kShm:
      return "shm";
    case Transport::kTcp:
      return "tcp";
    case Transport::kRdma:
      return "rdma";
  }
  return "unknown";
}

std::optional<Transport> LinkPolicy(const NodeConfig& config, NodeId a, NodeId b) {
  const std::optional<Transport> one = OwnTransport(config, a);
  const std::optional<Transport> other = OwnTransport(config, b);
  if (!one.has_value() && !other.has_value()) return config.transport;
  if (!one.has_value() || one == Transport::kAuto) return other.has_value() ? other : one;
  if (!other.has_value() || other == Transport::kAuto || other == one) return one;
  return std::nullopt;
}

bool MayUse(const NodeConfig& config, NodeId node, Transport kind) {
  // A node that is added later has no transport of its own.
  if (Permits(OwnTransport(config, node).value_or(config.transport), kind)) return true;
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    const auto policy = LinkPolicy(config, node, NodeId(static_cast<std::uint32_t>(i)));
    if (policy.has_value() && Permits(*policy, kind)) return true;
  }
  return false;
}

bool Offers(const NodeConfig& config, NodeId node, Transport kind) {
  return !AddressOfKind(config.nodes[node.value()], kind).empty() && MayUse(config, node, kind);
}

bool Requires(const NodeConfig& config, NodeId node, Transport kind) {
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    if (LinkPolicy(config, node, NodeId(static_cast<std::uint32_t>(i))) == kind) return true;
  }
  return false;
}

bool IsOtherTransport(absl::string_view address, absl::string_view other) {
  if (address.empty() || other.empty()) return false;
  return address.substr(0, address.find(':')) != other.substr(0, other.find(':'));
}

LinkChoice ChooseLink(const cluster::NodeInfo& self, const cluster::NodeInfo& peer,
                      Transport policy) {
  const bool same_host = peer.host == self.host;
  const auto only = [policy](const std::string& address, absl::string_view none) -> LinkChoice {
    if (address.empty()) return {"", absl::StrCat("transport=", TransportName(policy), ": ", none)};
    return {address, absl::StrCat("transport=", TransportName(policy))};
  };
  switch (policy) {
    case Transport::kShm:
      return only(peer.shm_address, "it has no shm path");
    case Transport::kTcp:
      return only(peer.tcp_address, "it has no data address");
    case Transport::kRdma:
      if (self.rdma_address.empty()) return only("", "this node has no rdma address");
      return only(peer.rdma_address, "it has no rdma address");
    case Transport::kAuto:
      break;
  }
  if (!peer.local_address.empty()) return {peer.local_address, "in the same process"};
  if (same_host && !peer.shm_address.empty()) return {peer.shm_address, "on the same host"};
  std::string why = "it has no rdma address";
  if (!peer.rdma_address.empty()) {
    const bool told = peer.incarnation.value() != 0;
    if (!self.rdma_address.empty() && told) return {peer.rdma_address, "both have a device"};
    why = self.rdma_address.empty() ? "no device here" : "it has not said yet that it has a device";
  }
  if (peer.tcp_address.empty()) return {"", "no transport in common"};
  return {peer.tcp_address, absl::StrCat(same_host ? "no shm path, " : "another host, ", why)};
}

std::optional<TransportProblem> CheckTransport(const NodeConfig& config) {
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    for (std::size_t j = i; j < config.nodes.size(); ++j) {
      const NodeId a(static_cast<std::uint32_t>(i));
      const NodeId b(static_cast<std::uint32_t>(j));
      const std::optional<Transport> policy = LinkPolicy(config, a, b);
      const NodeEntry& one = config.nodes[i];
      const NodeEntry& other = config.nodes[j];
      if (!policy.has_value()) {
        return TransportProblem{a, b,
                                absl::StrCat("nodes name=", one.name, " and name=", other.name,
                                             " disagree: transport=", TransportName(*one.transport),
                                             " here, transport=", TransportName(*other.transport))};
      }
      std::string what = WhyNot(one, other, *policy);
      if (what.empty()) continue;
      const NodeId whose = one.transport == policy     ? a
                           : other.transport == policy ? b
                                                       : cluster::kNoNode;
      return TransportProblem{whose, cluster::kNoNode, std::move(what)};
    }
  }
  return std::nullopt;
}

}  // namespace ring::node
