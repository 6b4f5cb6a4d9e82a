#include "tests/support/allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t allocation_count = 0;
thread_local std::uint64_t allocated_bytes = 0;
}  // namespace

// In a file of their own: inlined into callers, malloc and free would look mismatched to the
// compiler.
void* operator new(std::size_t size) {
  ++allocation_count;
  allocated_bytes += size;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ring {

std::uint64_t AllocationCount() { return allocation_count; }
std::uint64_t AllocatedBytes() { return allocated_bytes; }

}  // namespace ring
