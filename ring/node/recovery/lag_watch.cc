#include "ring/node/recovery/lag_watch.h"

#include <algorithm>

namespace ring::node {
namespace {
constexpr std::uint64_t kLooksMin = 4;  // within the limit
}  // namespace

bool LagWatch::Look(const Member& member, std::uint64_t now_ns, std::uint64_t limit_ns) {
  const std::uint64_t passed_ns = std::min(now_ns - last_look_ns_, limit_ns / kLooksMin);
  last_look_ns_ = now_ns;
  const bool behind =
      member.holds_up || member.position - member.folded_position > member.ring_size / 2;
  const bool done = member.acked_order >= order_ && member.folded_position >= told_position_;
  if (!behind || !watches_ || done) {
    watches_ = behind;
    order_ = member.order;
    told_position_ = member.told_position;
    lagging_ns_ = 0;
    return false;
  }
  lagging_ns_ += passed_ns;
  return lagging_ns_ >= limit_ns;
}

}  // namespace ring::node
