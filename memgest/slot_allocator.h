// memgest/slot_allocator.h — gives lines and slots to new versions of one (memgest, shard) at its
// coordinator.
//
// What:      Blocks of the heap are cut into slots of one size class; a FIFO of free lines per
//            class, so that the next slots are known early (prefetch) and reuse is late (G2).
//            Values over a block take whole blocks. A block whose slots are all free serves other
//            classes and large values once they need it. Pages that freed slots and blocks left
//            behind can be given back meanwhile, slots stay slots; a chunk of which nothing is left
//            goes back to the arena, and comes again when its blocks are needed. Frozen blocks are
//            skipped (S2), those whose bytes are not here (S4), and those that a new parity does
//            not cover yet (S6). Adopt makes all of this anew from the lines that a member folded
//            (slot_adopt.cc).
// Shape:     block b = cells [b*B/64, (b+1)*B/64). SRS: blocks follow the stretched layout's
//            extents, so the highest block ever used is the high-water mark (S4). A block gets its
//            granules (64 slots) as they are needed.
// Ownership: borrows the shard's line table and the memgest's heap.
// Threads:   one, the node's.
// Errors:    kResourceExhausted: arena, line limit, block limit; nothing was given out then.
//            kInvalidArgument: a length over the block size. Tombstones may use the reserve: the
//            last 1/64 of the shard's granules, at least one, are theirs, with their memory (E5).
// Cost:      Allocate and Free: a FIFO pop and push of a u32, the granule's and the block's record;
//            no heap allocation while a class has free slots.
// Source:    rules G2, E5, S2, S4, S6, S14.
#ifndef RING_MEMGEST_SLOT_ALLOCATOR_H_
#define RING_MEMGEST_SLOT_ALLOCATOR_H_

#include <array>
#include <bit>
#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memgest/block_set.h"
#include "memgest/heap_space.h"
#include "memgest/line_fifo.h"
#include "memgest/line_table.h"
#include "memgest/size_class.h"
#include "ring/base/id.h"

namespace ring::memgest {

struct Slot {
  std::uint32_t line = kNoLine;
  std::uint32_t offset_cells = 0;
  std::uint8_t size_class = 0;
};

// Whether the bytes of a block are on this node.
enum class BlockState : std::uint8_t { kPresent = 0, kDecoding = 1, kLost = 2 };

class SlotAllocator {
 public:
  // block_limit: blocks at most, for a code whose parities end before 2^32 cells of data do.
  SlotAllocator(MemgestId memgest, std::uint32_t block_size, LineTable* lines, HeapSpace* heap,
                std::uint32_t block_limit = ~std::uint32_t{0});

  // A line with a slot for length bytes (0 <= length <= block size; 0: a line without slot).
  absl::StatusOr<Slot> Allocate(std::uint32_t length);
  // A line without slot for a tombstone: may use the reserve.
  absl::StatusOr<Slot> AllocateTombstone();
  // A line and whole blocks for a value over the block size. ranges are runs of blocks, none
  // crossing a 2 MiB chunk, at most kRangeCountMax of them; the value's bytes fill them in order.
  // Blocks that were freed come first, long runs before short ones, then new ones.
  absl::StatusOr<Slot> AllocateLarge(std::uint64_t length, std::vector<Range>* ranges);
  // Takes back what was never appended (a put refused after its slot was reserved), at the front of
  // the FIFO.
  void Abandon(const Slot& slot, absl::Span<const Range> ranges);
  // The line's collection is committed and nothing refers to it (G2): the line must be Clear
  // already.
  void Free(std::uint32_t line, std::uint8_t size_class, std::uint32_t offset_cells,
            absl::Span<const Range> ranges);

  // Enough was freed since the last walk, an eighth of what is in use, that one over what
  // NextRelease gives may be worth while.
  bool release_due() const {
    return walking_ || (freed_cells_ >= kReleaseCellsMin && freed_cells_ >= used_cells_ / 8);
  }
  // Ends a period, and gives whether a walk should begin: that much was free all the time, so slots
  // which are freed and taken again soon keep their pages.
  bool EndReleasePeriod();
  bool walking() const { return walking_; }
  // The next run of pages that this heap or a member holds, at most length_max_cells long, of which
  // no slot, large value or frozen block has a byte. The caller releases it, by an entry of the log
  // where there are members, before it allocates again. Length 0: the walk is over, or goes on with
  // the next call (*again). Chunks that it leaves empty behind it are given back here.
  Range NextRelease(std::uint32_t length_max_cells, bool* again);

  // Where the next slot of this length will be, for prefetch. A hint: no line if it is not known.
  Slot Peek(std::uint32_t length) const;

  // An entry with this index of the log touches the bytes (coordinator, at append): for the cut's
  // n_i (S2). REQUIRES: offset_cells lies in a block that was given out.
  void NoteTouch(std::uint32_t offset_cells, std::uint64_t index) {
    blocks_[offset_cells >> block_shift_].last_touch = index;
  }
  std::uint64_t LastTouch(std::uint32_t block) const;
  // S2: no slot of the block is given out until Thaw. Freezes nest: a block that was frozen twice
  // needs two Thaws. block < block_limit(); it need not be in use yet, and costs no memory then.
  void Freeze(std::uint32_t block);
  void Thaw(std::uint32_t block);
  void ThawAll();  // who froze them reads them no more: the epoch changes
  bool frozen(std::uint32_t block) const { return !freezes_.empty() && freezes_.contains(block); }

  // S6: of the blocks [first, end), in use or not, no slot is given out, until the next Bar says
  // otherwise. None: first = end.
  void Bar(std::uint32_t first, std::uint32_t end);
  std::uint32_t bar_first() const { return bar_first_; }
  std::uint32_t bar_end() const { return bar_end_; }

  // Takes over the lines of this memgest that are taken in the table, whoever took them: blocks,
  // granules and free slots follow from them. A step of *left lines, or some more; *left is what
  // remains of it. Gives whether it was the last step. block_count: blocks that were ever used
  // (S4), as far as it is known; the lines may say more. state: of all blocks, Present or Lost.
  // Those that no line has bytes near have no memory yet: a shard needs no more of it at its next
  // coordinator than at the one before.
  // Members may hold any page of Present ones: what is not used of them counts as freed.
  // Errors: kDataLoss, lines that contradict each other; kResourceExhausted; the allocator is of no
  // use then. REQUIRES: nothing was given out; the lines stay as they are.
  absl::StatusOr<bool> Adopt(std::uint32_t block_count, BlockState state, std::uint64_t* left);
  // S4: the block's bytes are not here. Slots in it can be freed; none is given out, and nothing of
  // it released, before SetPresent. One that is Decoding falls back. REQUIRES: block <
  // block_count(); if it was given out, its memory is there.
  void SetLost(std::uint32_t block);
  // S5: its bytes are on their way; SetPresent: they are all here, as of this index of the log
  // (S2). zero: the bytes that were decoded are, and need no memory but for what was given out.
  // REQUIRES: lost; decoding; unless zero, its memory is there.
  void SetDecoding(std::uint32_t block);
  void SetPresent(std::uint32_t block, std::uint64_t last_touch, bool zero);
  BlockState state(std::uint32_t block) const {
    if (!lost_.Contains(block)) return BlockState::kPresent;
    return decoding_.Contains(block) ? BlockState::kDecoding : BlockState::kLost;
  }
  std::uint32_t lost_count() const { return lost_.count(); }  // decoding ones, too
  // The first of them from `block` on; BlockSet::kNone.
  std::uint32_t NextLost(std::uint32_t block) const { return lost_.Next(block); }
  // The lines whose slots lie in the block and are taken.
  template <class Visit>
  void ForEachLine(std::uint32_t block, Visit visit) const {
    for (const std::uint32_t granule : blocks_[block].granules) {
      const std::uint32_t first = granule * kLinesPerGranule;
      for (std::uint64_t taken = lines_->granule(first).taken; taken != 0; taken &= taken - 1)
        visit(first + static_cast<std::uint32_t>(std::countr_zero(taken)));
    }
  }

  // Blocks ever used: the high-water mark.
  std::uint32_t block_count() const { return block_count_; }
  // Given out, as slots and blocks.
  std::uint64_t used_bytes() const { return used_cells_ * kCellSize; }
  std::uint32_t block_size() const { return block_size_; }
  std::uint32_t block_limit() const { return block_limit_; }

 private:
  enum class BlockUse : std::uint8_t { kNone = 0, kSlots = 1, kLarge = 2 };
  struct Block {
    std::uint64_t last_touch = 0;
    std::uint32_t used = 0;  // slots given out
    std::uint8_t size_class = 0;
    BlockUse use = BlockUse::kNone;
    std::vector<std::uint32_t> granules;  // kSlots: granule j holds slots 64 j .. 64 j + 63
  };
  static constexpr std::uint64_t kReleaseCellsMin = 256 * 1024 / kCellSize;
  // The FIFO of lines without slots that came out of the reserve.
  static constexpr std::size_t kReserveFifo = kSizeClassCount;

  // No slot of the block may be given out.
  bool barred(std::uint32_t block) const {
    return frozen(block) || lost_.Contains(block) || (block >= bar_first_ && block < bar_end_);
  }
  bool any_barred() const {
    return !freezes_.empty() || lost_.count() > 0 || bar_first_ < bar_end_;
  }
  void Unpark(std::uint32_t block);
  void NowIdle(std::uint32_t block) {
    if (!lost_.Contains(block)) idle_.Insert(block);
  }
  void NowPooled(std::uint32_t block) {
    if (lost_.Contains(block)) return;
    (heap_->Has(block << block_shift_, block_cells_) ? pooled_ : gone_).Insert(block);
  }
  // slot_adopt.cc
  struct Adoption {
    std::uint32_t granule = 0;  // the next
    // Without a taken line: such a one may be what it was long ago, as a member hears of a
    // granule's class by the lines that are taken in it.
    std::vector<std::uint32_t> spares;
    bool blocks_known = false;
    std::uint32_t block = 0;  // the next to be finished
    bool chunk_used = false;  // any block of its chunk
  };
  bool ChunkIsUsed(std::uint32_t chunk) const;
  std::uint32_t GivenOut(std::uint32_t block) const;  // cells
  absl::Status KnowBlocks(std::uint32_t block_count);
  absl::Status AdoptGranule(std::uint32_t granule);
  absl::Status AdoptLarge(std::uint32_t line);
  absl::Status UseBlock(std::uint32_t block, BlockUse use, std::uint8_t size_class);
  void TakeSpares(const std::vector<std::uint32_t>& spares);
  absl::Status FinishBlock(std::uint32_t block, bool lost);
  LineFifo& FifoOf(std::uint32_t line, std::uint8_t size_class);
  bool PopValid(std::size_t fifo, std::uint32_t* line);
  absl::Status Refill(std::uint8_t size_class);
  absl::Status RefillSlots(std::uint8_t size_class);
  absl::StatusOr<std::uint32_t> TakeGranule(std::uint8_t size_class, std::uint32_t base_cells);
  bool ReclaimGranule();
  void DissolveBlock(std::uint32_t block);
  absl::StatusOr<std::uint32_t> TakeBlock();
  absl::StatusOr<std::uint32_t> GrowBlock();
  void FreeChunk(std::uint32_t chunk);
  std::uint32_t BringBack();
  void PoolGone(std::uint32_t chunk);
  std::uint32_t FindFree(const BlockSet& set) const;
  Slot GiveOut(std::uint32_t line, std::uint8_t size_class, std::uint32_t length);
  void TakeBack(std::uint32_t line, std::uint8_t size_class, std::uint32_t offset_cells,
                absl::Span<const Range> ranges);
  std::uint32_t PlanBlocks(std::uint32_t count, std::vector<std::uint32_t>* plan) const;
  std::uint32_t PlanRuns(std::uint32_t count, std::uint32_t run_min,
                         std::vector<std::uint32_t>* plan) const;
  void UseForLarge(absl::Span<const std::uint32_t> plan, std::vector<Range>* ranges);
  using PageMap = std::bitset<kSlotCellsMax / HeapSpace::kPageCells>;
  PageMap FreePages(std::uint32_t block) const;
  void DropStale();

  MemgestId memgest_;
  std::uint32_t block_size_;
  std::uint32_t block_cells_;
  int block_shift_;  // of cells
  std::uint32_t block_limit_;
  std::uint32_t chunk_blocks_;
  std::uint32_t reserve_granules_;
  LineTable* lines_;
  HeapSpace* heap_;

  std::vector<Block> blocks_;
  std::uint32_t block_count_ = 0;
  BlockSet pooled_;  // below block_count_, of no use at present
  BlockSet idle_;    // kSlots without a slot given out: its lines are in the FIFO (or parked)
  BlockSet gone_;    // of no use at present, and without memory; in neither of those
  BlockSet lost_;    // not Present; in none of those
  BlockSet decoding_;
  std::uint32_t bar_first_ = 0;  // S6: what no slot is given out of
  std::uint32_t bar_end_ = 0;
  absl::flat_hash_map<std::uint32_t, std::uint32_t> freezes_;  // by frozen block: how many
  std::uint64_t used_cells_ = 0;
  std::uint64_t freed_cells_ = 0;  // since the last walk began, or before Adopt
  std::uint64_t used_peak_ = 0;    // cells, of this period
  bool walking_ = false;           // over pages to give back
  std::uint32_t walk_block_ = 0;
  std::uint32_t walk_page_ = 0;  // in it

  // Entries of granules that left the class meanwhile are stale and skipped when popped. A granule
  // comes to a class only when the class's FIFO is empty, so an entry of its earlier stay cannot be
  // mistaken for one of the present.
  std::array<LineFifo, kSizeClassCount + 1> free_;
  std::array<std::size_t, kSizeClassCount> stale_{};  // entries before the last one that may be so
  // Blocks with slots that have no granule yet.
  std::array<std::vector<std::uint32_t>, kSizeClassCount> open_;
  // By barred block: lines popped.
  absl::flat_hash_map<std::uint32_t, std::vector<std::uint32_t>> parked_;
  std::vector<std::uint32_t> granules_free_;   // of dissolved blocks
  std::vector<std::uint32_t> granules_plain_;  // of class 0, not of the reserve
  std::uint32_t granules_plain_idle_ = 0;      // ... with no line taken
  absl::flat_hash_set<std::uint32_t> granules_reserve_;
  std::unique_ptr<Adoption> adoption_;  // until it is done
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SLOT_ALLOCATOR_H_
