// tests/support/fail_each.h — a call with each of its allocations failing in turn.
//
// What:      FailEach runs call() with its first allocation failing, then its second, and so on
//            until none fails. call() gives false where it said that there is no memory, and must
//            do so exactly when an allocation failed. What it leaves behind then is an error, too,
//            unless it may fill caches.
// Threads:   counts allocations of this thread; of the others' only what is left behind.
// Errors:    failures of the test.
#ifndef RING_TESTS_SUPPORT_FAIL_EACH_H_
#define RING_TESTS_SUPPORT_FAIL_EACH_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/failing_allocator.h"

namespace ring {

enum class Leaves : std::uint8_t { kNothing, kCaches };

template <class Call>
void FailEach(const Call& call, Leaves leaves = Leaves::kNothing) {
  for (std::uint64_t nth = 0;; ++nth) {
    const std::int64_t before = LiveAllocations();
    FailAllocation(nth);
    const bool done = call();
    const bool failed = AllocationFailed();
    const std::int64_t after = LiveAllocations();
    ASSERT_EQ(done, !failed) << "allocation " << nth;
    if (!failed) return;
    if (leaves == Leaves::kNothing) {
      ASSERT_EQ(after, before) << "allocation " << nth;
    }
  }
}

}  // namespace ring

#endif  // RING_TESTS_SUPPORT_FAIL_EACH_H_
