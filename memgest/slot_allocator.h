// memgest/slot_allocator.h — gives lines and slots to new versions of one (memgest, shard) at its coordinator.
//
// What:      Blocks of the heap are cut into slots of one size class; a FIFO of free lines per class, so that the next
//            slots are known early (prefetch) and reuse is late (G2). Values over a block take whole blocks. A block
//            whose slots are all free goes back to the pool. Frozen blocks are skipped (S2).
// Shape:     block b = cells [b*B/64, (b+1)*B/64). SRS: blocks follow the stretched layout's extents, so the highest
//            block ever used is the high-water mark (S4).
// Ownership: borrows the shard's line table and the memgest's heap.
// Threads:   one, the node's.
// Errors:    kResourceExhausted: arena, line limit, heap limit. Tombstones may use the reserve (E5).
// Cost:      Allocate and Free: a FIFO pop and push of a u32; no heap allocation while a class has free slots.
// Source:    protocol rules G2, E5, S2, S4, S14.
#ifndef RING_MEMGEST_SLOT_ALLOCATOR_H_
#define RING_MEMGEST_SLOT_ALLOCATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "ring/base/id.h"

namespace ring::memgest {

struct Slot {
  std::uint32_t line = kNoLine;
  std::uint32_t offset_cells = 0;
  std::uint8_t size_class = 0;
};

class SlotAllocator {
 public:
  SlotAllocator(MemgestId memgest, std::uint32_t block_size, LineTable* lines, HeapSpace* heap);

  // A line with a slot for length bytes (0 <= length <= block size; 0: a line without slot).
  absl::StatusOr<Slot> Allocate(std::uint32_t length);
  // A line without slot for a tombstone: may use the reserve.
  absl::StatusOr<Slot> AllocateTombstone();
  // A line and whole blocks for a value over the block size. ranges are runs of blocks, none crossing a 2 MiB chunk.
  absl::StatusOr<Slot> AllocateLarge(std::uint64_t length, std::vector<Range>* ranges);
  // Takes back what was never appended (a put refused after its slot was reserved), at the front of the FIFO.
  void Abandon(const Slot& slot, absl::Span<const Range> ranges);
  // The line's collection is committed and nothing refers to it (G2): the line must be Clear already.
  void Free(std::uint32_t line, std::uint8_t size_class, std::uint32_t offset_cells,
            absl::Span<const Range> ranges);

  // Where the next slot of this length will be, for prefetch; kNoLine if it is not known.
  Slot Peek(std::uint32_t length) const;

  // An entry with this index of the log touches the bytes (coordinator, at append): for the cut's n_i (S2).
  void NoteTouch(std::uint32_t offset_cells, std::uint64_t index);
  std::uint64_t LastTouch(std::uint32_t block) const;
  // S2: no slot of the block is given out until Thaw.
  void Freeze(std::uint32_t block);
  void Thaw(std::uint32_t block);
  bool frozen(std::uint32_t block) const;

  std::uint32_t block_count() const;  // blocks ever used: the high-water mark
  std::uint64_t used_bytes() const;   // slots given out, rounded up to their class
  std::uint32_t block_size() const { return block_size_; }

 private:
  MemgestId memgest_;
  std::uint32_t block_size_;
  LineTable* lines_;
  HeapSpace* heap_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SLOT_ALLOCATOR_H_
