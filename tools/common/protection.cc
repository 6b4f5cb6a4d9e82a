#include "tools/common/protection.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace ring::tools {
namespace {
constexpr absl::Duration kPause = absl::Milliseconds(20);
}  // namespace

std::string Unprotected(const absl::StatusOr<cluster::Health>& health) {
  if (!health.ok()) return std::string(health.status().message());
  std::vector<std::string> missing = health->warnings;
  for (const cluster::MemgestHealth& memgest : health->memgests) {
    if (memgest.condition == cluster::Condition::kProtected) continue;
    missing.push_back(absl::StrCat(
        memgest.name, " is ", std::string(cluster::ConditionName(memgest.condition)), ", survives ",
        memgest.now, " of ", memgest.promised, ", keys lost: ", memgest.keys_lost));
  }
  for (const cluster::ShardHealth& shard : health->shards) {
    missing.push_back(absl::StrCat("group=", shard.group.value(), " shard=", shard.shard.value(),
                                   " does not serve: ", shard.reason));
  }
  return absl::StrJoin(missing, "; ");
}

absl::Status WaitProtected(absl::FunctionRef<std::string()> unprotected, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    const std::string missing = unprotected();
    if (missing.empty()) return absl::OkStatus();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("not protected after ", absl::FormatDuration(timeout), ": ", missing));
    }
    absl::SleepFor(kPause);
  }
}

}  // namespace ring::tools
