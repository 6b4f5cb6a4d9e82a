#include "tools/ringctl/admin_connect.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "tools/common/admin_token_option.h"
#include "tools/common/format.h"
#include "tools/ringctl/output.h"

namespace ring::tools {

absl::StatusOr<std::unique_ptr<admin::AdminClient>> ConnectAdmin(const Options& options) {
  admin::AdminClientOptions client;
  client.addresses = SplitList(options.admin);
  if (client.addresses.empty()) {
    return absl::FailedPreconditionError(
        "no admin service to talk to: give --admin HOST:PORT, or set RING_ADMIN");
  }
  RING_ASSIGN_OR_RETURN(client.token, TokenOf(options.admin_token_file));
  client.deadline = options.timeout();
  if (options.timeout_given) client.scrub_deadline = client.deadline;
  // One try takes the whole time when there is no other node to ask.
  client.attempt_deadline =
      client.addresses.size() == 1 ? client.deadline : std::min(client.deadline, absl::Seconds(15));
  return admin::AdminClient::Create(std::move(client));
}

absl::StatusOr<cluster::NodeInfo> FindNode(admin::AdminClient& client, const std::string& text) {
  RING_ASSIGN_OR_RETURN(const cluster::View view, client.GetClusterView());
  const cluster::NodeInfo* const node = view.FindNodeByText(text);
  if (node != nullptr) return *node;
  return absl::NotFoundError(
      absl::StrCat("no node is named ", ShowBytes(text), ": ringctl cluster shows those that are"));
}

nlohmann::json NodeJson(const cluster::NodeInfo& node) {
  nlohmann::json out = {{"node", node.id.value()}};
  SetBytes(&out, "node_name", node.name);
  return out;
}

nlohmann::json NodeJson(const cluster::View& view, NodeId node) {
  if (node.value() < view.nodes.size()) return NodeJson(view.nodes[node.value()]);
  return {{"node", node.value()}};
}

nlohmann::json LostJson(const cluster::ShardHealth& shard) {
  nlohmann::json lost = nlohmann::json::array();
  for (const MemgestId memgest : shard.lost) lost.push_back(memgest.value());
  return lost;
}

nlohmann::json NumberJson(NodeId node) {
  return node == cluster::kNoNode ? nlohmann::json() : nlohmann::json(node.value());
}

std::string ShowNode(const cluster::NodeInfo& node) {
  return absl::StrCat(node.id.value(), " (", ShowBytes(node.name), ")");
}

std::string CommitName(const protocol::MemgestDescriptor& memgest) {
  if (memgest.scheme == protocol::Scheme::kStretchedReedSolomon) return "all parities";
  return memgest.commit == protocol::CommitRule::kAll ? "all" : "quorum";
}

nlohmann::json MemgestJson(const protocol::MemgestDescriptor& memgest, bool is_default) {
  nlohmann::json out = {{"id", memgest.id.value()},
                        {"name", memgest.name},
                        {"scheme", memgest.SchemeName()},
                        {"commit", CommitName(memgest)},
                        {"state", std::string(protocol::StateName(memgest.state))},
                        {"default", is_default},
                        {"block_size", memgest.block_size},
                        {"failures_promised", memgest.FailuresTolerated()},
                        {"storage_overhead", memgest.StorageOverhead()}};
  if (memgest.scheme == protocol::Scheme::kReplicated) {
    out["r"] = memgest.r;
  } else {
    out["k"] = memgest.k;
    out["m"] = memgest.m;
    out["repair"] = std::string(protocol::RepairName(memgest.repair));
  }
  return out;
}

nlohmann::json StatsJson(const node::MemgestStats& stats) {
  return {{"keys", stats.keys},
          {"versions", stats.versions},
          {"logical_bytes", stats.logical_bytes},
          {"slot_bytes", stats.slot_bytes},
          {"resident_bytes", stats.resident_bytes}};
}

}  // namespace ring::tools
