// ring/base/boot_clock.h — the real clock.
//
// What:      BootClock: CLOCK_BOOTTIME, which goes on while the machine is suspended (leases need
//            that).
// Units:     nanoseconds.
// Threads:   any.
// Errors:    none.
// Cost:      about 20 ns.
#ifndef RING_BASE_BOOT_CLOCK_H_
#define RING_BASE_BOOT_CLOCK_H_

#include <ctime>

#include "ring/base/clock.h"

namespace ring {

class BootClock final : public Clock {
 public:
  std::uint64_t NowNs() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  }
};

}  // namespace ring

#endif  // RING_BASE_BOOT_CLOCK_H_
