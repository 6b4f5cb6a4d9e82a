#include "ring/node/config/added_node.h"
#include "ring/base/host_port.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ring::node {
namespace {

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status CheckHostPort(absl::string_view field, absl::string_view address) {
  if (address.empty()) return absl::OkStatus();
  if (IsHostPort(address) && address.size() <= cluster::kAddressSizeMax - 5) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat(field, "=", address.substr(0, 64),
                          " must be HOST:PORT or [IPV6]:PORT with a port 1 to 65535"));
}

absl::Status NotOfThisCluster(absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("the file describes another cluster than the one that answers: ", why,
                   ": start with the file that the other nodes have"));
}

}  // namespace

absl::Status CheckAddedNode(const cluster::NodeInfo& info, Transport transport) {
  if (info.name.empty() || info.name.size() > cluster::kAddressSizeMax) {
    return Bad(absl::StrCat("name has size=", info.name.size(), ", allowed are 1 to ",
                            cluster::kAddressSizeMax));
  }
  absl::string_view tcp = info.tcp_address;
  if (!tcp.empty() && !absl::ConsumePrefix(&tcp, "tcp:")) {
    return Bad(absl::StrCat("data=", tcp.substr(0, 64), " is no TCP address"));
  }
  if (absl::Status status = CheckHostPort("data", tcp); !status.ok()) return status;
  absl::string_view rdma = info.rdma_address;
  if (!rdma.empty() && !absl::ConsumePrefix(&rdma, "rdma:")) {
    return Bad(absl::StrCat("rdma=", rdma.substr(0, 64), " is no RDMA address"));
  }
  if (absl::Status status = CheckHostPort("rdma", rdma); !status.ok()) return status;
  if (absl::Status status = CheckHostPort("admin", info.admin_address); !status.ok()) return status;
  absl::string_view shm = info.shm_address;
  const bool is_path = absl::ConsumePrefix(&shm, "shm:") && absl::StartsWith(shm, "/");
  if (!info.shm_address.empty() && (!is_path || shm.size() > kShmPathSizeMax)) {
    return Bad(absl::StrCat("shm=", shm.substr(0, 64), " must be an absolute path of at most ",
                            kShmPathSizeMax, " bytes"));
  }
  if (transport == Transport::kShm && info.shm_address.empty()) {
    return Bad("the cluster's nodes talk by shared memory only: give the new one a shm path");
  }
  if (transport == Transport::kRdma && info.rdma_address.empty()) {
    return Bad("the cluster's nodes talk by rdma only: give the new one a rdma address, HOST:PORT");
  }
  const bool by_tcp = transport == Transport::kAuto || transport == Transport::kTcp;
  if (by_tcp && info.tcp_address.empty()) {
    return Bad("the new node has no data address, HOST:PORT, at which the others find it");
  }
  return absl::OkStatus();
}

absl::Status JoinConfig(const cluster::View& view, absl::string_view name, const std::string& host,
                        NodeConfig* config) {
  if (view.cluster != cluster::ClusterHash(config->cluster_name, config->s, config->d)) {
    return NotOfThisCluster("its name, s or d differ");
  }
  const std::size_t founder_count = config->nodes.size() - config->added_count;
  if (view.nodes.size() < founder_count) return NotOfThisCluster("it names more nodes");
  for (std::size_t i = 0; i < founder_count; ++i) {
    if (view.nodes[i].name == config->nodes[i].name) continue;
    return NotOfThisCluster(
        absl::StrCat("its node ", i, " is ", config->nodes[i].name, ", not ", view.nodes[i].name));
  }
  const cluster::NodeInfo* const self = view.FindNode(name);
  if (self == nullptr) {
    return absl::NotFoundError(absl::StrCat("the cluster knows no node ", name,
                                            " yet: ringctl node add ", name,
                                            " --data HOST:PORT, at any node"));
  }
  if (self->status == cluster::NodeStatus::kRemoved) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", name, " was removed from the cluster: ringctl node add it again, at any node"));
  }
  config->nodes.resize(founder_count);
  // Who has this machine's identity shares memory with it: what labels the others' files use for
  // it, the view does not tell.
  for (std::size_t i = 0; i < founder_count; ++i) config->nodes[i].host = view.nodes[i].host;
  for (std::size_t i = founder_count; i < view.nodes.size(); ++i) {
    const cluster::NodeInfo& info = view.nodes[i];
    NodeEntry entry;
    entry.name = info.name;
    entry.host = info.host;
    entry.data = std::string(absl::StripPrefix(info.tcp_address, "tcp:"));
    entry.shm = std::string(absl::StripPrefix(info.shm_address, "shm:"));
    entry.rdma = std::string(absl::StripPrefix(info.rdma_address, "rdma:"));
    entry.admin = info.admin_address;
    config->nodes.push_back(std::move(entry));
  }
  config->added_count = view.nodes.size() - founder_count;
  config->self = self->id;
  config->nodes[self->id.value()].host = host;
  return absl::OkStatus();
}

}  // namespace ring::node
