// ringctl stats: what memgests hold and what nodes did, as tables.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/common/format.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

nlohmann::json CountersJson(const rdma::DeviceCounters& counters) {
  nlohmann::json out;
  for (const rdma::DeviceCounter& counter : rdma::kDeviceCounters)
    out[counter.name] = counters.*counter.member;
  return out;
}

nlohmann::json NodeStatsJson(const cluster::View& view, const node::NodeStats& node) {
  nlohmann::json out = NodeJson(view, node.node);
  out.update({{"resident_bytes", node.resident_bytes},
              {"gets", node.gets},
              {"puts", node.puts},
              {"deletes", node.deletes},
              {"moves", node.moves},
              {"refusals", node.refusals},
              {"clients", node.clients},
              {"log_entries_appended", node.log_entries_appended},
              {"log_entries_folded", node.log_entries_folded},
              {"log_bytes", node.log_bytes},
              {"wakeups", node.wakeups},
              {"device_counters", CountersJson(node.device_counters)},
              {"transports", node.transports},
              {"fence", node.fence},
              {"device_faults", node.device_faults},
              {"scrub_checked", node.scrub_checked},
              {"scrub_mismatches", node.scrub_mismatches},
              {"degraded_gets", node.degraded_gets},
              {"blocks_decoded", node.blocks_decoded}});
  return out;
}

void PrintMemgests(const cluster::View& view, const node::ClusterStats& stats) {
  Table table({"MEMGEST", "SCHEME", "KEYS", "VERSIONS", "VALUES", "SLOTS", "RESIDENT"});
  table.AlignLeft(1);
  for (const node::MemgestStats& one : stats.memgests) {
    const auto* memgest = view.FindMemgest(one.id);
    table.AddRow({memgest == nullptr ? absl::StrCat("id ", one.id.value()) : memgest->name,
                  memgest == nullptr ? "-" : memgest->SchemeName(), absl::StrCat(one.keys),
                  absl::StrCat(one.versions), FormatBytes(static_cast<double>(one.logical_bytes)),
                  FormatBytes(static_cast<double>(one.slot_bytes)),
                  FormatBytes(static_cast<double>(one.resident_bytes))});
  }
  std::printf("%s\n", table.ToString().c_str());
}

void PrintNodes(const node::ClusterStats& stats) {
  Table table({"NODE", "GETS", "PUTS", "DELETES", "MOVES", "REFUSED", "CLIENTS", "LOGGED", "FOLDED",
               "RESIDENT", "WAKEUPS", "FENCE", "PEERS BY"});
  table.AlignLeft(11);
  table.AlignLeft(12);
  for (const node::NodeStats& node : stats.nodes) {
    std::vector<std::string> transports;
    for (const std::string& transport : node.transports) {
      transports.push_back(transport.empty() ? "-" : transport);
    }
    table.AddRow({absl::StrCat(node.node.value()), absl::StrCat(node.gets), absl::StrCat(node.puts),
                  absl::StrCat(node.deletes), absl::StrCat(node.moves), absl::StrCat(node.refusals),
                  absl::StrCat(node.clients), absl::StrCat(node.log_entries_appended),
                  absl::StrCat(node.log_entries_folded),
                  FormatBytes(static_cast<double>(node.resident_bytes)), absl::StrCat(node.wakeups),
                  node.fence.empty() ? "-" : node.fence, absl::StrJoin(transports, " ")});
  }
  std::printf("%s", table.ToString().c_str());
}

int Run(const Options& options) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("stats", client.status()));
  const auto view = (*client)->GetClusterView();
  if (!view.ok()) return Fail(options, In("stats", view.status()));
  const auto stats = (*client)->GetStats();
  if (!stats.ok()) return Fail(options, In("stats", stats.status()));
  if (!options.json) {
    PrintMemgests(*view, *stats);
    PrintNodes(*stats);
    return kExitOk;
  }
  nlohmann::json memgests = nlohmann::json::array();
  for (const node::MemgestStats& one : stats->memgests) {
    nlohmann::json out = StatsJson(one);
    out["id"] = one.id.value();
    const auto* memgest = view->FindMemgest(one.id);
    if (memgest != nullptr) out["name"] = memgest->name;
    memgests.push_back(out);
  }
  nlohmann::json nodes = nlohmann::json::array();
  for (const node::NodeStats& node : stats->nodes) nodes.push_back(NodeStatsJson(*view, node));
  PrintJson({{"memgests", memgests}, {"nodes", nodes}});
  return kExitOk;
}

}  // namespace

void AddStats(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kStatsCommand);
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options); }; });
}

}  // namespace ring::tools
