// tools/common/ticks.h — time for measurements.
//
// What:      MonotonicNs: CLOCK_MONOTONIC. Ticks: the time stamp counter where there is one (a
//            third of the cost of a clock call), else nanoseconds; TicksPerNs calibrates it once.
// Units:     nanoseconds, ticks.
// Threads:   any. The counters of the cores are taken to be in step, as they are wherever Linux
//            uses them for its clock.
// Errors:    none.
// Cost:      Ticks about 10 ns; the first TicksPerNs takes 20 ms.
#ifndef RING_TOOLS_COMMON_TICKS_H_
#define RING_TOOLS_COMMON_TICKS_H_

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ring::tools {

std::uint64_t MonotonicNs();
double TicksPerNs();

inline std::uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return MonotonicNs();
#endif
}

inline std::uint64_t TicksToNs(std::uint64_t ticks) {
  return static_cast<std::uint64_t>(static_cast<double>(ticks) / TicksPerNs());
}
inline std::uint64_t NsToTicks(double ns) { return static_cast<std::uint64_t>(ns * TicksPerNs()); }

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_TICKS_H_
