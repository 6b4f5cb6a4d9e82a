// ringctl accept-loss: stopped shards go on without what nobody has (E8).
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "tools/common/format.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

struct Lossy {
  cluster::ShardHealth shard;
  std::string memgests;  // of which it lost something, for people
};

absl::StatusOr<std::vector<Lossy>> Stopped(admin::AdminClient& client) {
  RING_ASSIGN_OR_RETURN(const cluster::Health health, client.GetHealth());
  std::vector<Lossy> stopped;
  for (const cluster::ShardHealth& shard : health.shards) {
    if (!shard.stopped || shard.lost.empty()) continue;  // nothing to be given up: somebody is down
    Lossy one{shard, ""};
    for (const MemgestId lost : shard.lost) {
      const auto found = std::find_if(health.memgests.begin(), health.memgests.end(),
                                      [lost](const auto& memgest) { return memgest.id == lost; });
      absl::StrAppend(&one.memgests, one.memgests.empty() ? "" : ", ",
                      found == health.memgests.end() ? absl::StrCat("memgest ", lost.value())
                                                     : ShowBytes(found->name));
    }
    stopped.push_back(std::move(one));
  }
  return stopped;
}

// What it would be: so nobody gives values up without having seen of which shards.
void Show(const Options& options, const std::vector<Lossy>& stopped) {
  if (options.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [shard, memgests] : stopped) {
      nlohmann::json one = {{"group", shard.group.value()},
                            {"shard", shard.shard.value()},
                            {"coordinator", NumberJson(shard.coordinator)},
                            {"lost", LostJson(shard)}};
      SetBytes(&one, "reason", shard.reason);
      list.push_back(std::move(one));
    }
    PrintJson({{"stopped", list}});
    return;
  }
  Table table({"STOPPED", "COORDINATOR", "LOST OF", "WHY"});
  table.AlignLeft(2);
  table.AlignLeft(3);
  for (const auto& [shard, memgests] : stopped) {
    table.AddRow({absl::StrCat("group ", shard.group.value(), " shard ", shard.shard.value()),
                  absl::StrCat(shard.coordinator.value()), memgests, ShowBytes(shard.reason)});
  }
  std::printf(
      "%s\nWhat nobody has of their keys would be lost for good, also for a node that comes back "
      "later: repeat with --yes\n",
      table.ToString().c_str());
}

int Run(const Options& options, bool yes) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("accept-loss", client.status()));
  const auto stopped = Stopped(**client);
  if (!stopped.ok()) return Fail(options, In("accept-loss", stopped.status()));
  if (stopped->empty() && !options.json) {
    std::printf("no shard is stopped\n");
    return kExitOk;
  }
  if (!yes) {
    Show(options, *stopped);
    return kExitOk;
  }
  std::vector<cluster::StoppedShard> shards;
  for (const Lossy& one : *stopped)
    shards.push_back({one.shard.group, one.shard.shard, one.shard.epoch, one.shard.lost});
  const absl::StatusOr<int> count = shards.empty() ? 0 : (*client)->AcceptLoss(shards);
  if (!count.ok()) return Fail(options, In("accept-loss", count.status()));
  if (options.json) {
    PrintJson({{"shards", *count}});
  } else {
    std::printf("%d shards go on without what was lost\n", *count);
  }
  return kExitOk;
}

}  // namespace

void AddAcceptLoss(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kAcceptLossCommand);
  const auto yes = std::make_shared<bool>(false);
  sub->add_flag("--yes", *yes, "Do it; else the stopped shards are shown");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *yes); }; });
}

}  // namespace ring::tools
