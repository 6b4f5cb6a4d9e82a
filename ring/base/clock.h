// ring/base/clock.h — the port of time.
//
// What:      Clock: monotonic nanoseconds that include suspend (CLOCK_BOOTTIME in production). The
//            core takes it from outside, so that a simulation owns time.
// Units:     nanoseconds since an arbitrary origin.
// Ownership: the caller keeps the clock alive as long as its users.
// Threads:   NowNs may be called from any thread.
// Errors:    none.
// Cost:      one virtual call; read at most once per turn of the loop.
#ifndef RING_BASE_CLOCK_H_
#define RING_BASE_CLOCK_H_

#include <cstdint>

namespace ring {

inline constexpr std::uint64_t kMillisecondNs = 1'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::uint64_t NowNs() const = 0;
};

}  // namespace ring

#endif  // RING_BASE_CLOCK_H_
