// tests/support/allocation_counter.h — counts the calls of operator new by this thread.
//
// What:      AllocationCount; AllocatedBytes, those that were given back included. Linking the
//            source file replaces operator new and delete of the whole test program.
// Threads:   each thread has its count.
// Errors:    out of memory aborts.
#ifndef RING_TESTS_SUPPORT_ALLOCATION_COUNTER_H_
#define RING_TESTS_SUPPORT_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace ring {

std::uint64_t AllocationCount();
std::uint64_t AllocatedBytes();

}  // namespace ring

#endif  // RING_TESTS_SUPPORT_ALLOCATION_COUNTER_H_
