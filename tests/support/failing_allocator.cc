#include "tests/support/failing_allocator.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
thread_local std::uint64_t left = kNever;  // allocations before the one that fails
thread_local bool failed = false;
std::atomic<std::int64_t> live{0};

void* Allocate(std::size_t size) {
  if (left != kNever && left-- == 0) {
    left = kNever;
    failed = true;
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  ++live;
  return memory;
}

void Free(void* memory) {
  if (memory != nullptr) --live;
  std::free(memory);
}
}  // namespace

// In a file of their own: inlined into callers, malloc and free would look mismatched to the
// compiler. Arrays and nothrow, too: a sanitizer's would not come here.
void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return Allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Free(memory); }

namespace ring {

void FailAllocation(std::uint64_t nth) {
  left = nth;
  failed = false;
}

bool AllocationFailed() {
  left = kNever;
  return failed;
}

std::int64_t LiveAllocations() { return live; }

}  // namespace ring
