// ringctl cluster: nodes, roles, groups and who leads, once or again and again.
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ring/base/status.h"
#include "ring/cluster/health.h"
#include "tools/common/format.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"
#include "tools/ringctl/watch.h"

namespace ring::tools {
namespace {

using cluster::View;

// Roles by their numbers, for people who do not read masks.
nlohmann::json RolesJson(RoleMask roles, const View& view) {
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t x = 0; x < static_cast<std::size_t>(view.group_count()); ++x) {
    if (Has(roles, x)) out.push_back(x);
  }
  return out;
}

nlohmann::json ShardJson(const View& view, const cluster::ShardView& shard) {
  nlohmann::json memgests = nlohmann::json::array();
  for (const cluster::MemgestNormal& one : shard.normal.memgests) {
    memgests.push_back({{"id", one.id.value()},
                        {"active", RolesJson(one.active, view)},
                        {"complete", RolesJson(one.complete, view)},
                        {"lost", one.lost}});
  }
  return {{"normal_epoch", shard.normal.epoch.value()}, {"memgests", memgests}};
}

// By node, how it reaches each node: "shm", "" for itself, "down"; empty where it did not say.
using Links = std::vector<std::vector<std::string>>;

// What one look found. A view alone is something: what else could not be heard is in `unheard`.
struct Seen {
  View view;
  std::optional<NodeId> leader;  // kNoNode: nobody leads
  std::optional<Links> links;
  std::vector<absl::Status> unheard;
};

absl::StatusOr<Seen> See(admin::AdminClient& client) {
  Seen seen;
  RING_ASSIGN_OR_RETURN(seen.view, client.GetClusterView());
  const auto health = client.GetHealth();  // knows who leads
  if (health.ok()) {
    seen.leader = health->leader;
  } else {
    seen.unheard.push_back(In("who leads is not known", health.status()));
  }
  const auto stats = client.GetStats();
  if (!stats.ok()) {
    seen.unheard.push_back(In("how nodes reach each other is not known", stats.status()));
    return seen;
  }
  Links& links = seen.links.emplace(seen.view.nodes.size());
  for (const node::NodeStats& node : stats->nodes) {
    if (node.node.value() < links.size()) links[node.node.value()] = node.transports;
  }
  return seen;
}

// "shm 2, tcp 3".
std::string LinksText(const std::vector<std::string>& links) {
  std::map<std::string, int> counts;
  for (const std::string& link : links) {
    if (!link.empty()) ++counts[link];
  }
  const std::string text =
      absl::StrJoin(counts, ", ", [](std::string* out, const auto& kind_and_count) {
        absl::StrAppend(out, kind_and_count.first, " ", kind_and_count.second);
      });
  return text.empty() ? "-" : text;
}

nlohmann::json ViewJson(const Seen& seen) {
  const View& view = seen.view;
  nlohmann::json nodes = nlohmann::json::array();
  for (const cluster::NodeInfo& node : view.nodes) {
    nlohmann::json out = NodeJson(node);
    out["incarnation"] = node.incarnation.value();
    out["status"] = std::string(cluster::StatusName(node.status));
    SetBytes(&out, "local", node.local_address);
    SetBytes(&out, "shm", node.shm_address);
    SetBytes(&out, "tcp", node.tcp_address);
    SetBytes(&out, "rdma", node.rdma_address);
    SetBytes(&out, "admin", node.admin_address);
    SetBytes(&out, "host", node.host);
    if (seen.links.has_value()) out["transports"] = (*seen.links)[node.id.value()];
    nodes.push_back(out);
  }
  nlohmann::json groups = nlohmann::json::array();
  for (const cluster::GroupView& group : view.groups) {
    nlohmann::json roles = nlohmann::json::array();
    for (const NodeId holder : group.roles) {
      roles.push_back(NumberJson(holder));
    }
    nlohmann::json shards = nlohmann::json::array();
    for (const cluster::ShardView& shard : group.shards) shards.push_back(ShardJson(view, shard));
    groups.push_back({{"epoch", group.epoch.value()}, {"roles", roles}, {"shards", shards}});
  }
  nlohmann::json memgests = nlohmann::json::array();
  for (const auto& memgest : view.memgests) {
    memgests.push_back(MemgestJson(memgest, memgest.id == view.default_memgest));
  }
  nlohmann::json out = {{"epoch", view.epoch},
                        {"cluster", absl::StrFormat("%016x", view.cluster)},
                        {"s", view.s},
                        {"d", view.d},
                        {"voters", view.voter_count},
                        {"fail_over", view.fail_over},
                        {"nodes", nodes},
                        {"groups", groups},
                        {"memgests", memgests},
                        {"value_size_max", view.value_size_max}};
  if (seen.leader.has_value()) out["leader"] = NumberJson(*seen.leader);
  SetBytes(&out, "warnings", cluster::HealthWarnings(view));
  return out;
}

struct Roles {
  int coordinates = 0;
  int redundant = 0;
};

Roles RolesOf(const View& view, NodeId node) {
  Roles roles;
  for (const cluster::GroupView& group : view.groups) {
    for (std::size_t x = 0; x < group.roles.size(); ++x) {
      if (group.roles[x] != node) continue;
      ++(x < static_cast<std::size_t>(view.s) ? roles.coordinates : roles.redundant);
    }
  }
  return roles;
}

std::string RolesText(const Roles& roles, cluster::NodeStatus status) {
  if (roles.coordinates + roles.redundant > 0) {
    return absl::StrCat(roles.coordinates, " shards, ", roles.redundant, " redundant");
  }
  return status == cluster::NodeStatus::kUp ? "spare" : "-";
}

// The first address that there is: what a client would try.
std::string Address(const cluster::NodeInfo& node) {
  for (const std::string* address :
       {&node.tcp_address, &node.rdma_address, &node.shm_address, &node.local_address}) {
    if (!address->empty()) return ShowBytes(*address);
  }
  return "-";
}

// The last digits tell two starts apart.
std::string IncarnationText(Incarnation incarnation) {
  if (incarnation.value() == 0) return "-";
  return absl::StrFormat("%08x", incarnation.value() & 0xffffffff);
}

std::string LeaderText(const std::optional<NodeId>& leader) {
  if (!leader.has_value()) return "?";
  return *leader == cluster::kNoNode ? "-" : absl::StrCat(leader->value());
}

void PrintView(const Seen& seen) {
  const View& view = seen.view;
  std::printf("cluster %016llx  view %u  s=%d d=%d  nodes=%zu spares=%d  leader=%s\n\n",
              static_cast<unsigned long long>(view.cluster), view.epoch, view.s, view.d,
              view.nodes.size(), view.spare_count(), LeaderText(seen.leader).c_str());
  Table nodes({"NODE", "NAME", "STATUS", "INCARNATION", "ROLES", "ADDRESS", "ADMIN", "PEERS BY"});
  for (const std::size_t column : {1, 2, 3, 4, 5, 6, 7}) nodes.AlignLeft(column);
  for (const cluster::NodeInfo& node : view.nodes) {
    nodes.AddRow({absl::StrCat(node.id.value()), ShowBytes(node.name),
                  std::string(cluster::StatusName(node.status)), IncarnationText(node.incarnation),
                  RolesText(RolesOf(view, node.id), node.status), Address(node),
                  node.admin_address.empty() ? "-" : ShowBytes(node.admin_address),
                  seen.links.has_value() ? LinksText((*seen.links)[node.id.value()]) : "?"});
  }
  std::printf("%s\n", nodes.ToString().c_str());
  Table groups({"GROUP", "EPOCH", "COORDINATORS", "REDUNDANT"});
  for (const std::size_t column : {2, 3}) groups.AlignLeft(column);
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    std::string coordinators;
    std::string redundant;
    for (std::size_t x = 0; x < view.groups[g].roles.size(); ++x) {
      std::string& out = x < static_cast<std::size_t>(view.s) ? coordinators : redundant;
      const NodeId holder = view.groups[g].roles[x];
      absl::StrAppend(&out, out.empty() ? "" : " ",
                      holder == cluster::kNoNode ? "-" : absl::StrCat(holder.value()));
    }
    groups.AddRow(
        {absl::StrCat(g), absl::StrCat(view.groups[g].epoch.value()), coordinators, redundant});
  }
  std::printf("%s", groups.ToString().c_str());
  const std::vector<std::string> warnings = cluster::HealthWarnings(view);
  if (!warnings.empty()) std::printf("\n");
  for (const std::string& warning : warnings)
    std::printf("warning: %s\n", ShowBytes(warning).c_str());
}

int Show(const Options& options, admin::AdminClient& client) {
  const absl::StatusOr<Seen> seen = See(client);
  if (!seen.ok()) return Fail(options, In("cluster", seen.status()));
  if (options.json) {
    PrintJson(ViewJson(*seen));
  } else {
    PrintView(*seen);
  }
  for (const absl::Status& status : seen->unheard)
    std::fprintf(stderr, "warning: cluster: %s\n", ShowBytes(status.message()).c_str());
  return kExitOk;
}

int Run(const Options& options, const WatchOptions& watch) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("cluster", client.status()));
  return Watch(watch, !options.json, [&] { return Show(options, **client); });
}

}  // namespace

void AddCluster(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kClusterCommand);
  const auto watch = std::make_shared<WatchOptions>();
  AddWatch(sub, "--watch", "Show it again and again, until Ctrl-C", watch.get());
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *watch); }; });
}

}  // namespace ring::tools
