// tools/ringctl/admin_connect.h — the client of an operator's command, and how memgests are shown.
//
// What:      ConnectAdmin: an AdminClient for --admin or RING_ADMIN. FindNode: the node that a
//            command line means. NodeJson, MemgestJson.
// Threads:   one.
// Errors:    kFailedPrecondition (no address); those of admin::ReadTokenFile and of
//            AdminClient::Create. FindNode: those of GetClusterView, kNotFound.
#ifndef RING_TOOLS_RINGCTL_ADMIN_CONNECT_H_
#define RING_TOOLS_RINGCTL_ADMIN_CONNECT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/admin/admin_client.h"
#include "nlohmann/json.hpp"
#include "tools/ringctl/options.h"

namespace ring::tools {

absl::StatusOr<std::unique_ptr<admin::AdminClient>> ConnectAdmin(const Options& options);

// text: a name or a number, as the admin service reads it.
absl::StatusOr<cluster::NodeInfo> FindNode(admin::AdminClient& client, const std::string& text);
// {"node": number, "node_name": name}, as every --json tells a node. The second form leaves out the
// name of a node that the view does not have.
nlohmann::json NodeJson(const cluster::NodeInfo& node);
nlohmann::json NodeJson(const cluster::View& view, NodeId node);
// The number, or null for nobody: of who leads, coordinates, holds a role.
nlohmann::json NumberJson(NodeId node);
// Ids of the memgests of which a stopped shard lost something.
nlohmann::json LostJson(const cluster::ShardHealth& shard);
// "1 (n1)"
std::string ShowNode(const cluster::NodeInfo& node);

std::string CommitName(const protocol::MemgestDescriptor& memgest);
nlohmann::json MemgestJson(const protocol::MemgestDescriptor& memgest, bool is_default);
nlohmann::json StatsJson(const node::MemgestStats& stats);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_ADMIN_CONNECT_H_
