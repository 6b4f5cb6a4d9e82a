// ring/node/recovery/lag_watch.h — whether a member of a shard keeps up with its coordinator.
//
// What:      LagWatch, one for each member: looked at from time to time, it says when the member is
//            more than half a ring behind, or keeps entries from being released, and what it had to
//            do when that began is not done a given time later (E5).
//            LagPatience, one for each role, whoever holds it, says how long that time is: who
//            joined again and lags again is waited for twice as long, as an epoch and a join cost
//            more than it does.
// Shape:     a full ring alone is no lag: it is full as long as a coordinator writes faster than
//            anybody folds. What counts is how long it takes to acknowledge what was sent, and to
//            fold what it was told to be committed: what waits for another member is not its lag.
// Units:     nanoseconds; positions of the member's ring; orders of the shard's log.
// Ownership: values.
// Threads:   pure.
// Errors:    none.
// Source:    rule E5.
#ifndef RING_NODE_RECOVERY_LAG_WATCH_H_
#define RING_NODE_RECOVERY_LAG_WATCH_H_

#include <algorithm>
#include <cstdint>

namespace ring::node {

class LagWatch {
 public:
  struct Member {
    std::uint64_t order = 0;  // of the last entry for it
    std::uint64_t acked_order = 0;
    std::uint64_t position = 0;         // behind that entry
    std::uint64_t told_position = 0;    // committed up to here, as it knows
    std::uint64_t folded_position = 0;  // as it said
    std::uint64_t ring_size = 0;
    bool holds_up = false;  // nothing more can be appended before it acknowledges
  };

  // Whether it has lagged for limit_ns. Time in which nobody looked counts little: who looks may
  // have stood still, and not the member.
  bool Look(const Member& member, std::uint64_t now_ns, std::uint64_t limit_ns);

 private:
  std::uint64_t last_look_ns_ = 0;
  std::uint64_t lagging_ns_ = 0;
  bool watches_ = false;
  std::uint64_t order_ = 0;  // what it has to do
  std::uint64_t told_position_ = 0;
};

class LagPatience {
 public:
  static constexpr int kDoublingsMax = 5;
  static constexpr std::uint64_t kForgottenNs = 20'000'000'000;

  std::uint64_t Of(std::uint64_t limit_ns, std::uint64_t now_ns) const {
    return now_ns - proposed_ns_ < kForgottenNs ? limit_ns << doublings_ : limit_ns;
  }
  // Its demotion is proposed.
  void OnProposed(std::uint64_t now_ns) {
    const bool again = proposed_ns_ != 0 && now_ns - proposed_ns_ < kForgottenNs;
    doublings_ = again ? std::min(doublings_ + 1, kDoublingsMax) : 1;
    proposed_ns_ = now_ns;
  }

 private:
  int doublings_ = 0;
  std::uint64_t proposed_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_LAG_WATCH_H_
