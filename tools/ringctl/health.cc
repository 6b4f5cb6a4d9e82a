// ringctl health: what is protected, at risk, lost, or does not serve; the exit status says which.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"
#include "tools/ringctl/watch.h"

namespace ring::tools {
namespace {

using cluster::Health;
using cluster::MemgestHealth;

int StatusOf(cluster::HealthLevel level) { return static_cast<int>(level) - 1; }

// Never 100 while something is missing.
int Percent(double share) { return static_cast<int>(std::floor(share * 100)); }

std::string ConditionText(const MemgestHealth& memgest) {
  const std::string name(cluster::ConditionName(memgest.condition));
  if (memgest.condition != cluster::Condition::kRecovering) return name;
  return absl::StrCat(name, " ", Percent(memgest.recovered), " %");
}

nlohmann::json HealthJson(const Health& health) {
  nlohmann::json memgests = nlohmann::json::array();
  for (const MemgestHealth& memgest : health.memgests) {
    memgests.push_back({{"id", memgest.id.value()},
                        {"name", memgest.name},
                        {"scheme", memgest.scheme},
                        {"condition", std::string(cluster::ConditionName(memgest.condition))},
                        {"failures_promised", memgest.promised},
                        {"failures_survived", memgest.now},
                        {"recovered", memgest.recovered},
                        {"keys", memgest.keys},
                        {"keys_at_risk", memgest.keys_at_risk},
                        {"keys_lost", memgest.keys_lost}});
  }
  nlohmann::json shards = nlohmann::json::array();
  for (const cluster::ShardHealth& shard : health.shards) {
    nlohmann::json one = {{"group", shard.group.value()},
                          {"shard", shard.shard.value()},
                          {"coordinator", NumberJson(shard.coordinator)},
                          {"stopped", shard.stopped},
                          {"lost", LostJson(shard)}};
    SetBytes(&one, "reason", shard.reason);
    shards.push_back(one);
  }
  nlohmann::json out = {{"level", std::string(cluster::LevelName(health.level))},
                        {"view_epoch", health.view_epoch},
                        {"leader", NumberJson(health.leader)},
                        {"memgests", memgests},
                        {"shards_not_serving", shards}};
  SetBytes(&out, "warnings", health.warnings);
  return out;
}

void PrintHealth(const Health& health) {
  std::printf(
      "health %s  view %u  leader %s\n\n", std::string(cluster::LevelName(health.level)).c_str(),
      health.view_epoch,
      health.leader == cluster::kNoNode ? "-" : absl::StrCat(health.leader.value()).c_str());
  Table memgests(
      {"MEMGEST", "SCHEME", "CONDITION", "SURVIVES", "PROMISED", "KEYS", "AT RISK", "LOST"});
  memgests.AlignLeft(1);
  memgests.AlignLeft(2);
  for (const MemgestHealth& memgest : health.memgests) {
    memgests.AddRow({memgest.name, memgest.scheme, ConditionText(memgest),
                     absl::StrCat(memgest.now), absl::StrCat(memgest.promised),
                     absl::StrCat(memgest.keys), absl::StrCat(memgest.keys_at_risk),
                     absl::StrCat(memgest.keys_lost)});
  }
  std::printf("%s", memgests.ToString().c_str());
  if (!health.shards.empty()) {
    Table shards({"NOT SERVING", "COORDINATOR", "WHY"});
    shards.AlignLeft(2);
    for (const cluster::ShardHealth& shard : health.shards) {
      shards.AddRow(
          {absl::StrCat("group ", shard.group.value(), " shard ", shard.shard.value()),
           shard.coordinator == cluster::kNoNode ? "-" : absl::StrCat(shard.coordinator.value()),
           absl::StrCat(shard.stopped ? "stopped: " : "", ShowBytes(shard.reason))});
    }
    std::printf("\n%s", shards.ToString().c_str());
  }
  if (!health.warnings.empty()) std::printf("\n");
  for (const std::string& warning : health.warnings) {
    std::printf("warning: %s\n", ShowBytes(warning).c_str());
  }
}

int FailUnknown(const Options& options, const absl::Status& status) {
  Fail(options, In("health", status));
  return kExitHealthUnknown;
}

int Show(const Options& options, admin::AdminClient& client) {
  const absl::StatusOr<Health> health = client.GetHealth();
  if (!health.ok()) return FailUnknown(options, health.status());
  if (options.json) {
    PrintJson(HealthJson(*health));
  } else {
    PrintHealth(*health);
  }
  return StatusOf(health->level);
}

int Run(const Options& options, const WatchOptions& watch) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) {
    const int status = FailUnknown(options, client.status());
    return absl::IsInvalidArgument(client.status()) ? kExitHealthUsage : status;
  }
  return Watch(watch, !options.json, [&] { return Show(options, **client); });
}

}  // namespace

void AddHealth(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kHealthCommand);
  const auto watch = std::make_shared<WatchOptions>();
  AddWatch(sub, "--watch", "Show it again and again, until Ctrl-C", watch.get());
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *watch); }; });
}

}  // namespace ring::tools
