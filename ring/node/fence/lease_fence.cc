#include "ring/node/fence/lease_fence.h"

#include <algorithm>

#include "ring/base/mutant.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kRenewalsPerLease = 4;
// After a refusal: the leader is not known, or is new.
constexpr std::uint64_t kRetriesPerLease = 20;
}  // namespace

void LeaseFence::Progress(std::uint64_t now_ns) {
  turn_ns_ = now_ns;
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + lease_ns_ / kRenewalsPerLease;
  // now_ns may be of long ago; then the lease is shorter, not longer.
  renew_([this, alive = alive_, sent_ns = now_ns](const absl::Status& status) {
    if (!*alive) return;
    if (status.ok()) {
      until_ns_ = std::max(until_ns_, sent_ns + lease_ns_);
    } else {
      next_ns_ = std::min(next_ns_, sent_ns + lease_ns_ / kRetriesPerLease);
    }
  });
}

std::uint64_t LeaseFence::Decide(std::uint64_t captured) {
  const std::uint64_t now_ns = Mutant("L2") ? turn_ns_ : clock_->NowNs();
  if (now_ns < until_ns_ || Mutant("L1-lease")) passed_ = captured;
  return passed_;
}

}  // namespace ring::node
