#include "tools/common/ticks.h"

#include <ctime>

namespace ring::tools {

std::uint64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double TicksPerNs() {
  static const double ratio = [] {
    const std::uint64_t start_ns = MonotonicNs();
    const std::uint64_t start = Ticks();
    std::uint64_t now_ns = start_ns;
    while (now_ns - start_ns < 20'000'000) now_ns = MonotonicNs();
    return static_cast<double>(Ticks() - start) / static_cast<double>(now_ns - start_ns);
  }();
  return ratio;
}

}  // namespace ring::tools
