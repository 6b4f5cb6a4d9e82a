#include "ring/base/run_delay.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace ring {
namespace {

// The first processor that this process may run on.
cpu_set_t OneProcessor() {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof(all), &all);
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_SET(first, &one);
  return one;
}

TEST(RunDelay, GrowsWhileAnotherThreadHasTheProcessor) {
  std::atomic<bool> over{false};
  std::atomic<bool> unknown{false};
  const cpu_set_t one = OneProcessor();
  std::thread other([&] {
    sched_setaffinity(0, sizeof(one), &one);
    while (!over.load(std::memory_order_relaxed)) {
    }
  });
  std::thread waiting([&] {
    sched_setaffinity(0, sizeof(one), &one);
    const RunDelay delay;
    const auto before_ns = delay.ReadNs();
    unknown = !before_ns.has_value();
    // Until it waited: the test's time limit tells if that never shows.
    while (!unknown && *delay.ReadNs() <= *before_ns) {
    }
    over = true;
  });
  waiting.join();
  other.join();
  EXPECT_FALSE(unknown) << "this system does not count how long threads wait";
}

}  // namespace
}  // namespace ring
