#include "tools/ring-bench/cost_counters.h"

#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "ring/base/check.h"

namespace ring::bench {
namespace {

std::atomic<std::uint64_t> allocation_count{0};

void* Allocate(std::size_t size, std::size_t alignment) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (size == 0) size = 1;
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    memory = std::malloc(size);
  } else {
    memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  }
  RING_CHECK(memory != nullptr) << "out of memory size=" << size;
  return memory;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

CostCounters CostCounters::Now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  CostCounters now;
  now.allocations = allocation_count.load(std::memory_order_relaxed);
  now.voluntary_switches = static_cast<std::uint64_t>(usage.ru_nvcsw);
  now.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  return now;
}

}  // namespace ring::bench

// The nothrow forms end in these in the standard library, but a sanitizer has its own of each: a
// form that is left out here would allocate there and be freed here.
void* operator new(std::size_t size) { return ring::bench::Allocate(size, 1); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return ring::bench::Allocate(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return ring::bench::Allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return ring::bench::Allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size) { return ring::bench::Allocate(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return ring::bench::Allocate(size, 1);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return ring::bench::Allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return ring::bench::Allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
