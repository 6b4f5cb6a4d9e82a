// tests/support/failing_allocator.h — an operator new that fails when it is told to.
//
// What:      FailAllocation(n) lets the n-th allocation that this thread makes from now on, counted
//            from 0, throw std::bad_alloc, once; AllocationFailed ends that, and says whether it
//            came to it. LiveAllocations counts what was not given back. Linking the source file
//            replaces operator new and delete of the whole test program.
// Threads:   each fails for itself; LiveAllocations is of all threads.
// Errors:    memory that is really out is std::bad_alloc, too.
#ifndef RING_TESTS_SUPPORT_FAILING_ALLOCATOR_H_
#define RING_TESTS_SUPPORT_FAILING_ALLOCATOR_H_

#include <cstdint>

namespace ring {

void FailAllocation(std::uint64_t nth);
bool AllocationFailed();
std::int64_t LiveAllocations();

}  // namespace ring

#endif  // RING_TESTS_SUPPORT_FAILING_ALLOCATOR_H_
