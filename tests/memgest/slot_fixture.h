// tests/memgest/slot_fixture.h — an allocator with its own lines, heap and device.
//
// What:      SlotFixture holds them. Walk gives back what a walk over freed pages names, as a
//            coordinator without members does.
// Ownership: owns everything.
// Threads:   one.
// Errors:    those of the allocator.
#ifndef RING_TESTS_MEMGEST_SLOT_FIXTURE_H_
#define RING_TESTS_MEMGEST_SLOT_FIXTURE_H_

#include <cstdint>
#include <vector>

#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "memgest/slot_allocator.h"
#include "tests/memgest/twin_device.h"

namespace ring::memgest {

struct SlotFixture {
  static constexpr std::uint32_t kBlock = 4096;

  explicit SlotFixture(std::uint32_t line_count_max = 1u << 16, std::uint32_t block_size = kBlock)
      : lines(&device, line_count_max),
        heap(&device),
        allocator(MemgestId(2), block_size, &lines, &heap) {}
  void Free(const Slot& slot, const std::vector<Range>& ranges = {}) {
    allocator.Free(slot.line, slot.size_class, slot.offset_cells, ranges);
  }
  TwinDevice device;
  LineTable lines;
  HeapSpace heap;
  SlotAllocator allocator;
};

// All runs that a walk gives; their pages are released.
inline std::vector<Range> Walk(SlotFixture& f, std::uint32_t length_max_cells = 1u << 15) {
  std::vector<Range> ranges;
  for (bool again = true; again;) {
    const Range range = f.allocator.NextRelease(length_max_cells, &again);
    if (range.length_cells == 0) continue;
    ranges.push_back(range);
    f.heap.Release(range.offset_cells, range.length_cells);
  }
  return ranges;
}

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_SLOT_FIXTURE_H_
