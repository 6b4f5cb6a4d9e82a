// ring/node/pace_keeper.h — recovery in the background makes way for others on the machine.
//
// What:      PaceKeeper is told how long the reactor's thread waited for a processor. While others
//            want it too, background work of all its nodes slows down, step by step; it speeds up
//            again when nobody waits. Requests then find processors that are free now and then:
//            without this they wait for whatever every process has to recover.
// Units:     nanoseconds of the reactor's clock; shares of each node's recovery_rate.
// Ownership: value.
// Threads:   one, the reactor's.
// Errors:    none.
// Cost:      who asks for the wait makes a system call (ring/base/run_delay.h), every kLookNs while
//            something recovers, and none otherwise.
// Source:    docs/adr/0034.
#ifndef RING_NODE_PACE_KEEPER_H_
#define RING_NODE_PACE_KEEPER_H_

#include <algorithm>
#include <cstdint>

namespace ring::node {

class PaceKeeper {
 public:
  static constexpr std::uint64_t kLookNs = 2'000'000;
  // A little below what the default rates allow, so that it is soon above that again.
  static constexpr double kLeastShare = 1.0 / 64;

  // Whether it is time for the next look; says so once, as a turn has no time to find out that
  // there is nothing to look for.
  bool Due(std::uint64_t now_ns) {
    if (now_ns - due_ns_ < kLookNs) return false;
    due_ns_ = now_ns;
    return true;
  }

  // waited_ns: for a processor, in all. Gives what Pace::Slow takes.
  double Look(std::uint64_t now_ns, std::uint64_t waited_ns) {
    const std::uint64_t passed_ns = now_ns - looked_ns_;
    const std::uint64_t wait_ns = waited_ns - waited_ns_;
    looked_ns_ = due_ns_ = now_ns;
    waited_ns_ = waited_ns;
    if (wait_ns > passed_ns / kAlonePart) {
      share_ = std::max(share_ * 3 / 4, kLeastShare);
    } else {
      share_ = passed_ns > kForgetNs ? 1 : std::min(share_ * 9 / 8, 1.0);
    }
    return share_;
  }

 private:
  // Who waits for no more than this part of the time is alone, but for what runs on every machine.
  static constexpr std::uint64_t kAlonePart = 10;
  // What was measured longer ago tells nothing of now.
  static constexpr std::uint64_t kForgetNs = 1'000'000'000;

  std::uint64_t looked_ns_ = 0;
  std::uint64_t due_ns_ = 0;
  std::uint64_t waited_ns_ = 0;
  double share_ = 1;
};

}  // namespace ring::node

#endif  // RING_NODE_PACE_KEEPER_H_
