#include "memgest/slot_allocator.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/memgest/slot_fixture.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using Fixture = SlotFixture;
using ::ring::testing::StatusIs;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr std::uint32_t kBlock = Fixture::kBlock;
constexpr std::uint32_t kBlockCells = kBlock / 64;

// A slow model of what is given out: cells and lines, each at most once.
class Model {
 public:
  void Add(const Slot& slot, const std::vector<Range>& ranges) {
    ASSERT_TRUE(lines_.insert(slot.line).second) << "line=" << slot.line << " given out twice";
    if (ranges.empty()) AddCells(slot.offset_cells, CellsOf(slot.size_class));
    for (const Range& range : ranges) AddCells(range.offset_cells, range.length_cells);
  }
  void Remove(const Slot& slot, const std::vector<Range>& ranges) {
    lines_.erase(slot.line);
    if (ranges.empty()) RemoveCells(slot.offset_cells, CellsOf(slot.size_class));
    for (const Range& range : ranges) RemoveCells(range.offset_cells, range.length_cells);
  }
  std::size_t used_cells() const { return cells_.size(); }

 private:
  void AddCells(std::uint32_t offset, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(cells_.insert(offset + i).second) << "cell=" << offset + i << " overlaps";
    }
  }
  void RemoveCells(std::uint32_t offset, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) cells_.erase(offset + i);
  }
  std::set<std::uint32_t> lines_;
  std::set<std::uint32_t> cells_;
};

TEST(SlotAllocator, G2ReuseIsFirstInFirstOut) {
  Fixture f;
  std::vector<Slot> slots;
  for (int i = 0; i < 64; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(64));
    slots.push_back(slot);
  }
  f.Free(slots[7]);
  f.Free(slots[3]);
  EXPECT_EQ(f.allocator.Peek(64).line, slots[7].line);
  ASSERT_OK_AND_ASSIGN(const Slot first, f.allocator.Allocate(60));
  EXPECT_EQ(f.allocator.Peek(64).line, slots[3].line);
  ASSERT_OK_AND_ASSIGN(const Slot second, f.allocator.Allocate(60));
  EXPECT_EQ(first.line, slots[7].line);
  EXPECT_EQ(second.line, slots[3].line);
}

TEST(SlotAllocator, S2AFrozenBlockFarAboveTheHighWaterMarkCostsNothing) {
  Fixture f;
  const std::uint32_t last = f.allocator.block_limit() - 1;
  f.allocator.Freeze(last);
  EXPECT_TRUE(f.allocator.frozen(last));
  EXPECT_EQ(f.allocator.LastTouch(last), 0u);
  ASSERT_OK(f.allocator.Allocate(1000).status());
  EXPECT_EQ(f.allocator.block_count(), 1u);
  f.allocator.Thaw(last);
  EXPECT_FALSE(f.allocator.frozen(last));
}

TEST(SlotAllocator, S4PastTheBlockLimitNothingIsGivenOut) {
  Fixture f;
  SlotAllocator few(MemgestId(3), kBlock, &f.lines, &f.heap, 3);
  EXPECT_EQ(few.block_limit(), 3u);
  std::vector<Range> ranges;
  EXPECT_THAT(few.AllocateLarge(4 * kBlock, &ranges).status(), StatusIs(kExhausted));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, few.Allocate(kBlock));
    EXPECT_LT(slot.offset_cells, 3 * kBlockCells);
  }
  EXPECT_THAT(few.Allocate(kBlock).status(), StatusIs(kExhausted));
  EXPECT_THAT(few.Allocate(1).status(), StatusIs(kExhausted));
}

TEST(SlotAllocator, AnAbandonedSlotIsTheNextAgain) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(1000));
  f.allocator.Abandon(slot, {});
  EXPECT_EQ(f.allocator.used_bytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const Slot again, f.allocator.Allocate(1000));
  EXPECT_EQ(again.line, slot.line);
}

TEST(SlotAllocator, RefusesALengthOverTheBlock) {
  Fixture f;
  EXPECT_THAT(f.allocator.Allocate(kBlock + 1), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(kBlock));
  EXPECT_EQ(slot.offset_cells % kBlockCells, 0u);
}

TEST(SlotAllocator, S2NothingIsGivenOutOfAFrozenBlock) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const Slot first, f.allocator.Allocate(64));
  f.allocator.Freeze(0);
  f.allocator.Freeze(0);
  f.allocator.Freeze(2);  // not in use yet
  EXPECT_EQ(f.allocator.Peek(64).line, kNoLine);
  std::set<std::uint32_t> blocks;
  for (int i = 0; i < 130; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(64));
    blocks.insert(slot.offset_cells / kBlockCells);
  }
  EXPECT_EQ(blocks, (std::set<std::uint32_t>{1, 3, 4}));
  f.Free(first);
  f.allocator.Thaw(0);
  EXPECT_TRUE(f.allocator.frozen(0));  // freezes nest
  f.allocator.Thaw(0);
  f.allocator.Thaw(2);
  EXPECT_FALSE(f.allocator.frozen(0));
  // No slot was lost: what was skipped comes back, and the block that was skipped is used.
  for (int i = 0; i < 62 + 64 + 64; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(64));
    blocks.insert(slot.offset_cells / kBlockCells);
  }
  EXPECT_EQ(blocks, (std::set<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(f.allocator.block_count(), 5u);
}

TEST(SlotAllocator, AWholeFreeBlockServesOtherClassesAndLargeValues) {
  Fixture f;
  std::vector<Slot> slots;
  for (int i = 0; i < 64 * 4; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(64));
    slots.push_back(slot);
  }
  for (const Slot& slot : slots) f.Free(slot);
  ASSERT_OK_AND_ASSIGN(const Slot other, f.allocator.Allocate(2048));
  std::vector<Range> ranges;
  ASSERT_OK_AND_ASSIGN(const Slot large, f.allocator.AllocateLarge(3 * kBlock, &ranges));
  EXPECT_EQ(f.allocator.block_count(), 4u) << "grew although blocks were free";
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].length_cells, 3 * kBlockCells);
  // The entries of the class that lost its blocks are stale now.
  EXPECT_EQ(f.allocator.Peek(64).line, kNoLine);
  ASSERT_OK_AND_ASSIGN(const Slot fresh, f.allocator.Allocate(64));
  EXPECT_EQ(fresh.offset_cells / kBlockCells, 4u);
  f.Free(large, ranges);
  f.Free(other);
}

TEST(SlotAllocator, LargeValuesTakeRunsThatNeverCrossAChunk) {
  Fixture f(1u << 16, 256 * 1024);
  ASSERT_OK(f.allocator.Allocate(1000).status());
  std::vector<Range> ranges;
  ASSERT_OK(f.allocator.AllocateLarge(16u << 20, &ranges).status());
  std::uint64_t cells = 0;
  for (const Range& range : ranges) {
    EXPECT_EQ(range.offset_cells >> HeapSpace::kChunkCellShift,
              (range.offset_cells + range.length_cells - 1) >> HeapSpace::kChunkCellShift);
    EXPECT_TRUE(f.heap.Has(range.offset_cells, range.length_cells));
    cells += range.length_cells;
  }
  EXPECT_EQ(cells * 64, 16u << 20);
  EXPECT_EQ(ranges.size(), 9u);
}

TEST(SlotAllocator, E5TombstonesHaveAReserveThatPutsCannotTake) {
  Fixture f(8 * 64);  // 8 granules, one of them reserved
  std::vector<Slot> slots;
  while (true) {
    auto slot = f.allocator.Allocate(64);
    if (!slot.ok()) {
      EXPECT_THAT(slot, StatusIs(kExhausted));
      break;
    }
    slots.push_back(*slot);
  }
  EXPECT_EQ(slots.size(), 7u * 64);
  EXPECT_THAT(f.allocator.Allocate(0), StatusIs(kExhausted));
  std::vector<Slot> tombstones;
  for (int i = 0; i < 64; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.AllocateTombstone());
    tombstones.push_back(slot);
  }
  EXPECT_THAT(f.allocator.AllocateTombstone(), StatusIs(kExhausted));
  f.Free(tombstones[5]);
  EXPECT_THAT(f.allocator.Allocate(0), StatusIs(kExhausted)) << "an empty value took the reserve";
  ASSERT_OK(f.allocator.AllocateTombstone().status());
  // Lines of dissolved blocks serve all.
  for (const Slot& slot : slots) f.Free(slot);
  ASSERT_OK(f.allocator.Allocate(0).status());
}

TEST(SlotAllocator, S2RemembersTheLastTouchOfABlock) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(64));
  f.allocator.NoteTouch(slot.offset_cells, 17);
  EXPECT_EQ(f.allocator.LastTouch(0), 17u);
  EXPECT_EQ(f.allocator.LastTouch(12345), 0u);
}

// Random allocations, frees and freezes against the model.
class RandomRun {
 public:
  RandomRun(std::uint64_t seed, std::uint32_t block_size)
      : random_(seed), block_size_(block_size), f_(1u << 17, block_size) {}

  void Run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
      const bool grow = step / 1000 % 2 == 0;
      const std::uint64_t dice = random_.Below(100);
      if (dice < (grow ? 60u : 35u)) {
        Allocate();
      } else if (dice < 95) {
        if (!held_.empty()) Free();
      } else {
        FreezeOrThaw(dice < 98);
        if (random_.Below(2) == 0) Bar();
      }
      if (random_.Below(100) == 0) Walk(f_);
      ASSERT_EQ(f_.allocator.used_bytes(), model_.used_cells() * 64);
      ASSERT_GE(f_.allocator.block_count(), high_water_);
      high_water_ = f_.allocator.block_count();
    }
    if (!::testing::Test::HasFatalFailure()) TakeAll();
  }

 private:
  struct Held {
    Slot slot;
    std::vector<Range> ranges;
  };

  absl::StatusOr<Slot> AllocateLarge(std::vector<Range>* ranges) {
    const std::uint64_t length = block_size_ + 1 + random_.Below(40 * kBlock);
    absl::StatusOr<Slot> slot = f_.allocator.AllocateLarge(length, ranges);
    std::uint64_t cells = 0;
    for (const Range& range : *ranges) {
      cells += range.length_cells;
      for (std::uint32_t at = 0; at < range.length_cells; at += block_size_ / 64)
        ExpectFree((range.offset_cells + at) * 64 / block_size_);
      EXPECT_TRUE(f_.heap.Has(range.offset_cells, range.length_cells));
    }
    EXPECT_EQ(cells * 64, (length + block_size_ - 1) / block_size_ * block_size_);
    return slot;
  }
  absl::StatusOr<Slot> AllocateSlot(std::uint32_t length) {
    const Slot hint = f_.allocator.Peek(length);
    absl::StatusOr<Slot> slot = f_.allocator.Allocate(length);
    if (!slot.ok()) return slot;
    EXPECT_TRUE(hint.line == kNoLine || slot->line == hint.line);
    EXPECT_GE(CellsOf(slot->size_class) * 64, length);
    if (length > 0) {
      ExpectFree(slot->offset_cells * 64 / block_size_);
      EXPECT_TRUE(f_.heap.Has(slot->offset_cells, CellsOf(slot->size_class)));
    }
    return slot;
  }
  void Allocate() {
    Held one;
    const std::uint64_t kind = random_.Below(20);
    const std::uint32_t limit = kind < 4 ? block_size_ : std::min(block_size_, 2000u);
    const auto length = static_cast<std::uint32_t>(random_.Below(limit + 1));
    absl::StatusOr<Slot> slot = kind == 0   ? AllocateLarge(&one.ranges)
                                : kind == 1 ? f_.allocator.AllocateTombstone()
                                            : AllocateSlot(length);
    ASSERT_OK(slot.status());
    one.slot = *slot;
    model_.Add(one.slot, one.ranges);
    if (random_.Below(30) == 0) {
      f_.allocator.Abandon(one.slot, one.ranges);
      model_.Remove(one.slot, one.ranges);
    } else {
      held_.push_back(std::move(one));
    }
  }
  void Free() {
    std::swap(held_[random_.Below(held_.size())], held_.back());
    f_.Free(held_.back().slot, held_.back().ranges);
    model_.Remove(held_.back().slot, held_.back().ranges);
    held_.pop_back();
  }
  void FreezeOrThaw(bool freeze) {
    if (freeze) {
      frozen_.push_back(static_cast<std::uint32_t>(random_.Below(f_.allocator.block_count() + 3)));
      f_.allocator.Freeze(frozen_.back());
    } else if (!frozen_.empty()) {
      std::swap(frozen_[random_.Below(frozen_.size())], frozen_.back());
      f_.allocator.Thaw(frozen_.back());
      frozen_.pop_back();
    }
  }
  void Bar() {
    bar_first_ = static_cast<std::uint32_t>(random_.Below(f_.allocator.block_count() + 3));
    bar_end_ = bar_first_ + static_cast<std::uint32_t>(random_.Below(4));
    f_.allocator.Bar(bar_first_, bar_end_);
  }
  // Neither frozen (S2) nor barred (S6).
  void ExpectFree(std::uint32_t block) {
    EXPECT_FALSE(f_.allocator.frozen(block)) << block;
    EXPECT_FALSE(block >= bar_first_ && block < bar_end_) << block;
  }
  // Everything comes back: one value can have all blocks, so none was lost.
  void TakeAll() {
    for (const std::uint32_t block : frozen_) f_.allocator.Thaw(block);
    f_.allocator.Bar(0, 0);
    bar_first_ = bar_end_ = 0;
    while (!held_.empty()) Free();
    Walk(f_);
    EXPECT_LE(f_.heap.reserved_bytes(), HeapSpace::kChunkSize) << "all but the first chunk went";
    // Block by block: a large value may leave a run that is too short for it, and take a new block.
    for (std::uint32_t i = 0; i < high_water_; ++i) {
      ASSERT_OK(f_.allocator.Allocate(block_size_).status()) << "block " << i;
    }
    EXPECT_EQ(f_.allocator.block_count(), high_water_);
    EXPECT_EQ(f_.allocator.used_bytes(), std::uint64_t{high_water_} * block_size_);
  }

  SeededRandom random_;
  std::uint32_t block_size_;
  Fixture f_;
  Model model_;
  std::vector<Held> held_;
  std::vector<std::uint32_t> frozen_;
  std::uint32_t bar_first_ = 0;
  std::uint32_t bar_end_ = 0;
  std::uint32_t high_water_ = 0;
};

TEST(SlotAllocator, AgreesWithASlowModel) {
  for (std::uint64_t round = 0; round < 6; ++round) {
    RandomRun run(ring::testing::SeedFor("slots") + round, round % 2 == 0 ? kBlock : 16 * kBlock);
    run.Run(6000);
    if (HasFatalFailure()) return;
  }
}

TEST(SlotAllocator, AFailedAllocationHasNoEffectWhereverItFails) {
  // The lines' chunk, and three of the heap.
  for (std::size_t n = 1; n <= 4; ++n) {
    Fixture f(1u << 16, 2u << 20);
    f.device.fail_from = n;
    std::vector<Range> ranges;
    auto slot = f.allocator.AllocateLarge(5u << 20, &ranges);
    EXPECT_THAT(slot, StatusIs(kExhausted)) << n;
    EXPECT_EQ(f.allocator.used_bytes(), 0u);
    f.device.fail_from = ~std::size_t{0};
    ASSERT_OK(f.allocator.AllocateLarge(5u << 20, &ranges).status());
    EXPECT_EQ(f.allocator.block_count(), 3u) << "a block was lost when call " << n << " failed";
  }
}

TEST(SlotAllocator, ASmallArenaGivesAllItHasAndThenAnError) {
  Fixture f(1u << 16, 256 * 1024);
  f.device.limit = 3 * HeapSpace::kChunkSize;  // one for lines, two for values
  std::vector<Slot> slots;
  while (true) {
    auto slot = f.allocator.Allocate(60000);
    if (!slot.ok()) {
      EXPECT_THAT(slot, StatusIs(kExhausted));
      break;
    }
    slots.push_back(*slot);
  }
  EXPECT_EQ(slots.size(), 16u * 4);
  f.Free(slots.back());
  EXPECT_OK(f.allocator.Allocate(60000).status());
}

TEST(SlotAllocator, TheHeapEndsAtTwoToThe32Cells) {
  Fixture f(1u << 16, 2u << 20);
  EXPECT_EQ(f.allocator.block_limit(), 1u << 17);
  for (std::uint32_t b = 0; b < f.allocator.block_limit(); ++b) f.allocator.Freeze(b);
  EXPECT_THAT(f.allocator.Allocate(64), StatusIs(kExhausted));
  EXPECT_EQ(f.allocator.block_count(), 0u);
  f.allocator.Thaw(0);
  EXPECT_OK(f.allocator.Allocate(64).status());
}

TEST(SlotAllocator, MemgestsOfAShardShareLinesAndNeverGranules) {
  Fixture f;
  HeapSpace heap(&f.device);
  SlotAllocator second(MemgestId(3), kBlock, &f.lines, &heap);
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot a, f.allocator.Allocate(100));
    ASSERT_OK_AND_ASSIGN(const Slot b, second.Allocate(100));
    EXPECT_EQ(f.lines.granule(a.line).memgest, 2);
    EXPECT_EQ(f.lines.granule(b.line).memgest, 3);
  }
}

}  // namespace
}  // namespace ring::memgest
