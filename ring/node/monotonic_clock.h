// ring/node/monotonic_clock.h — the real clock.
//
// What:      MonotonicClock: CLOCK_BOOTTIME, which goes on while the machine is suspended (leases
//            need that).
// Units:     nanoseconds.
// Threads:   any.
// Errors:    none.
// Cost:      about 20 ns.
#ifndef RING_NODE_MONOTONIC_CLOCK_H_
#define RING_NODE_MONOTONIC_CLOCK_H_

#include <ctime>

#include "ring/base/clock.h"

namespace ring::node {

class MonotonicClock final : public Clock {
 public:
  std::uint64_t NowNs() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  }
};

}  // namespace ring::node

#endif  // RING_NODE_MONOTONIC_CLOCK_H_
