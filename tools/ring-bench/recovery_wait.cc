#include "tools/ring-bench/recovery_wait.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/status.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"
#include "tools/common/protection.h"

namespace ring::bench {
namespace {

constexpr absl::Duration kAskInterval = absl::Milliseconds(100);
// What takes longer is looked at: that is work for the nodes, which others wait for.
constexpr absl::Duration kLookInterval = absl::Seconds(1);
constexpr double kSteps = 1000;  // of the progress bar

// Of the memgest that lacks most.
double Recovered(const absl::StatusOr<cluster::Health>& health) {
  double least = 1;
  if (!health.ok()) return 0;
  for (const cluster::MemgestHealth& memgest : health->memgests)
    least = std::min(least, memgest.recovered);
  return least;
}

}  // namespace

absl::Status WaitRecovered(RecoveryTarget* target, bool show_progress,
                           absl::FunctionRef<absl::StatusOr<bool>()> done) {
  tools::Progress bar("recovered", static_cast<std::uint64_t>(kSteps), show_progress);
  std::string before;
  absl::Time changed = absl::Now(), looked = changed;
  for (;; absl::SleepFor(kAskInterval)) {
    if (tools::Interrupted()) return absl::CancelledError("interrupted");
    RING_ASSIGN_OR_RETURN(const bool is_done, done());
    if (is_done) return absl::OkStatus();
    if (absl::Now() - looked < kLookInterval) continue;
    looked = absl::Now();
    const absl::StatusOr<cluster::Health> health = target->Health();
    const double recovered = Recovered(health);
    bar.Set(static_cast<std::uint64_t>(recovered * kSteps));
    const std::string missing = tools::Unprotected(health);
    std::string now = absl::StrCat(recovered, " ", missing);
    if (now != before) {
      before = std::move(now);
      changed = looked;
    }
    if (looked - changed > kRecoveryPatience) {
      return absl::DeadlineExceededError(
          absl::StrCat("nothing changed for ", absl::FormatDuration(kRecoveryPatience), ": ",
                       missing.empty() ? "all is protected" : missing));
    }
  }
}

absl::Status WaitProtected(RecoveryTarget* target, bool show_progress) {
  return WaitRecovered(target, show_progress, [target]() -> absl::StatusOr<bool> {
    return tools::Unprotected(target->Health()).empty();
  });
}

}  // namespace ring::bench
