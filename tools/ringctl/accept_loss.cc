#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

// What it would be: so nobody gives values up without having seen of which shards.
int ShowStopped(const Options& options, admin::AdminClient& client) {
  const auto health = client.GetHealth();
  if (!health.ok()) return Fail(options, In("accept-loss", health.status()));
  std::string stopped;
  for (const cluster::ShardHealth& shard : health->shards) {
    if (!shard.stopped || shard.coordinator == cluster::kNoNode) continue;
    absl::StrAppend(&stopped, stopped.empty() ? "" : ", ", "g", shard.group.value(), "/s",
                    shard.shard.value());
  }
  if (stopped.empty()) {
    return Fail(options, absl::FailedPreconditionError("accept-loss: no shard is stopped"));
  }
  return Fail(options, absl::FailedPreconditionError(absl::StrCat(
                           "accept-loss: stopped shards: ", stopped,
                           ". What nobody has of their keys would be lost for good, also for a "
                           "node that comes back later: repeat with --yes")));
}

int Run(const Options& options, bool yes) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return Fail(options, In("accept-loss", client.status()));
  if (!yes) return ShowStopped(options, **client);
  const absl::StatusOr<int> count = (*client)->AcceptLoss();
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
  CLI::App* sub =
      app.add_subcommand("accept-loss", "Let stopped shards go on without what is lost");
  const auto yes = std::make_shared<bool>(false);
  sub->add_flag("--yes", *yes, "Do it; else the stopped shards are shown");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *yes); }; });
}

}  // namespace ring::tools
