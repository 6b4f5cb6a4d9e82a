// tests/api/jumping_clock.h — real time, from which a test jumps ahead.
//
// What:      JumpingClock: a deadline comes when the test says so; waits and retries take their
//            time, as without it.
// Units:     nanoseconds of CLOCK_BOOTTIME, and how far the test jumped.
// Threads:   any.
// Errors:    none.
#ifndef RING_TESTS_API_JUMPING_CLOCK_H_
#define RING_TESTS_API_JUMPING_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "ring/base/boot_clock.h"

namespace ring::testing {

class JumpingClock : public Clock {
 public:
  std::uint64_t NowNs() const override { return BootClock().NowNs() + ahead_ns_; }
  void Jump(absl::Duration ahead) {
    ahead_ns_ += static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(ahead));
  }

 private:
  std::atomic<std::uint64_t> ahead_ns_{0};
};

}  // namespace ring::testing

#endif  // RING_TESTS_API_JUMPING_CLOCK_H_
