// ringctl accept-loss: stopped shards go on without what nobody has (E8).
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/status.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

absl::StatusOr<std::vector<cluster::StoppedShard>> Stopped(admin::AdminClient& client) {
  RING_ASSIGN_OR_RETURN(const cluster::Health health, client.GetHealth());
  std::vector<cluster::StoppedShard> stopped;
  for (const cluster::ShardHealth& shard : health.shards) {
    if (shard.stopped && shard.coordinator != cluster::kNoNode)
      stopped.push_back({shard.group, shard.shard, shard.epoch});
  }
  if (stopped.empty()) return absl::FailedPreconditionError("no shard is stopped");
  return stopped;
}

// What it would be: so nobody gives values up without having seen of which shards.
absl::Status Show(const std::vector<cluster::StoppedShard>& stopped) {
  const std::string shards =
      absl::StrJoin(stopped, ", ", [](std::string* out, const cluster::StoppedShard& shard) {
        absl::StrAppend(out, "g", shard.group.value(), "/s", shard.shard.value());
      });
  return absl::FailedPreconditionError(
      absl::StrCat("stopped shards: ", shards,
                   ". What nobody has of their keys would be lost for good, also for a node that "
                   "comes back later: repeat with --yes"));
}

int Run(const Options& options, bool yes) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("accept-loss", client.status()));
  const auto stopped = Stopped(**client);
  if (!stopped.ok()) return Fail(options, In("accept-loss", stopped.status()));
  if (!yes) return Fail(options, In("accept-loss", Show(*stopped)));
  const absl::StatusOr<int> count = (*client)->AcceptLoss(*stopped);
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
