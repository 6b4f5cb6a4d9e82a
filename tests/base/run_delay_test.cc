#include "ring/base/run_delay.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "tests/support/await.h"

namespace ring {
namespace {

// The first processor that this process may run on.
cpu_set_t OneProcessor() {
  cpu_set_t all, one;
  CPU_ZERO(&all);
  CPU_ZERO(&one);
  EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int first = 0;
  while (first + 1 < CPU_SETSIZE && !CPU_ISSET(first, &all)) ++first;
  CPU_SET(first, &one);
  return one;
}

TEST(RunDelay, GrowsWhileAnotherThreadHasTheProcessor) {
  std::atomic<bool> over{false};
  std::atomic<bool> unknown{false};
  std::atomic<bool> waited{false};
  const cpu_set_t one = OneProcessor();
  std::thread other([&] {
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    while (!over.load(std::memory_order_relaxed)) {
    }
  });
  std::thread waiting([&] {
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    const RunDelay delay;
    const auto before_ns = delay.ReadNs();
    unknown = !before_ns.has_value();
    const auto grown = [&] { return delay.ReadNs().value_or(0) > *before_ns; };
    waited = !unknown && testing::HoldsWithin(testing::kPatience, grown, [] {});
    over = true;
  });
  waiting.join();
  other.join();
  ASSERT_FALSE(unknown) << "this system does not count how long threads wait";
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace ring
