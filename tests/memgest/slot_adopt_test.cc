// An allocator that is made anew from lines a member folded; blocks whose bytes are not here: S3,
// S4.
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/slot_allocator.h"
#include "ring/base/random.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;

constexpr MemgestId kMemgest{2};
constexpr std::uint32_t kBlockSize = 8192;
constexpr std::uint32_t kBlockCells = kBlockSize / 64;

struct Given {
  Slot slot;
  std::vector<Range> ranges;
  std::uint32_t length = 0;
};

// A coordinator's allocator, and the table of a member that follows it: lines are taken there as
// entries are folded, and granules known from lines alone.
class SlotAdopt : public ::testing::Test {
 protected:
  SlotAdopt() { old_ = std::make_unique<SlotAllocator>(kMemgest, kBlockSize, &ours_, &heap_); }
  void Allocate(std::uint32_t length) {
    Given given;
    given.length = length;
    absl::StatusOr<Slot> slot =
        length > kBlockSize ? old_->AllocateLarge(length, &given.ranges) : old_->Allocate(length);
    ASSERT_OK(slot.status());
    given.slot = *slot;
    ASSERT_OK(theirs_.EnsureLine(slot->line, kMemgest, slot->size_class, slot->offset_cells));
    MetadataLine& line = theirs_.line(slot->line);
    line.version = ++versions_;
    ours_.line(slot->line).version = versions_;
    line.value_length = length;
    line.offset_cells = slot->offset_cells;
    line.size_class = slot->size_class;
    line.flags = kLive | kCommitted;
    if (!given.ranges.empty()) theirs_.SetRanges(slot->line, given.ranges);
    theirs_.TakeLine(slot->line);
    given_[slot->line] = given;
  }
  void Free(std::uint32_t line) {
    const Given given = given_[line];
    given_.erase(line);
    theirs_.Clear(line);
    theirs_.DropLine(line);
    ours_.Clear(line);
    old_->Free(line, given.slot.size_class, given.slot.offset_cells, given.ranges);
  }
  void AdoptNow(std::uint32_t block_count = 0, BlockState state = BlockState::kPresent) {
    adopted_ = std::make_unique<SlotAllocator>(kMemgest, kBlockSize, &theirs_, &new_heap_);
    for (bool done = false; !done;) {
      std::uint64_t left = 1 + given_.size() / 4;
      ASSERT_OK_AND_ASSIGN(done, adopted_->Adopt(block_count, state, &left));
      EXPECT_TRUE(done || left == 0) << left;
    }
    cells_.clear();
    for (const auto& [line, given] : given_) AddCells(given);
  }
  // Each cell and line belongs to one version at most, across the change.
  void AddCells(const Given& given) {
    if (given.ranges.empty()) Add(given.slot.offset_cells, CellsOf(given.slot.size_class));
    for (const Range& range : given.ranges) Add(range.offset_cells, range.length_cells);
  }
  void Add(std::uint32_t offset, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(cells_.insert(offset + i).second) << "cell=" << offset + i << " given out twice";
    }
  }
  void AllocateAnew(std::uint32_t length) {
    Given given;
    given.length = length;
    absl::StatusOr<Slot> slot = length > kBlockSize ? adopted_->AllocateLarge(length, &given.ranges)
                                                    : adopted_->Allocate(length);
    ASSERT_OK(slot.status());
    given.slot = *slot;
    ASSERT_TRUE(given_.emplace(slot->line, given).second) << "line=" << slot->line;
    AddCells(given);
  }

  TwinDevice device_;
  LineTable ours_{&device_, 1u << 14};
  LineTable theirs_{&device_, 1u << 14};
  HeapSpace heap_{&device_};
  HeapSpace new_heap_{&device_};
  std::unique_ptr<SlotAllocator> old_;
  std::unique_ptr<SlotAllocator> adopted_;
  std::map<std::uint32_t, Given> given_;
  std::set<std::uint32_t> cells_;
  std::uint64_t versions_ = 0;
};

// Nothing that a version has is given out again, all else is, whatever history made the lines.
TEST_F(SlotAdopt, WhatIsTakenStaysAndWhatIsFreeIsFoundWhateverTheHistory) {
  SeededRandom random(ring::testing::SeedFor("adopt"));
  for (int step = 0; step < 3000; ++step) {
    const bool shrink = step / 300 % 2 == 1;
    if (given_.empty() || random.Next64() % 10 >= (shrink ? 8u : 3u)) {
      const std::uint64_t kind = random.Next64() % 20;
      const std::uint64_t limit = kind == 0 ? 5 * kBlockSize : kind < 4 ? kBlockSize : 600;
      Allocate(static_cast<std::uint32_t>(random.Next64() % limit));
    } else {
      auto victim = given_.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random.Next64() % given_.size()));
      Free(victim->first);
    }
    ASSERT_FALSE(HasFatalFailure());
  }
  AdoptNow(old_->block_count());
  EXPECT_EQ(adopted_->used_bytes(), old_->used_bytes());
  EXPECT_EQ(adopted_->block_count(), old_->block_count());
  // The same amount again fits without new blocks as it did before: free slots were found.
  const std::uint32_t blocks = adopted_->block_count();
  const std::uint64_t free_cells = std::uint64_t{blocks} * kBlockCells - cells_.size();
  for (std::uint64_t cells = 0; cells < free_cells / 2; ++cells) {
    AllocateAnew(64);
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(adopted_->block_count(), blocks);
  // And all that was there can go.
  for (const auto& [line, given] : given_) {
    theirs_.Clear(line);
    adopted_->Free(line, given.slot.size_class, given.slot.offset_cells, given.ranges);
  }
  EXPECT_EQ(adopted_->used_bytes(), 0u);
}

TEST_F(SlotAdopt, AGapInABlockGetsAGranule) {
  for (int i = 0; i < 128; ++i) Allocate(64);  // two granules of one block
  const std::uint32_t second = given_.rbegin()->first / kLinesPerGranule;
  const std::uint32_t first = given_.begin()->first / kLinesPerGranule;
  ASSERT_NE(first, second);
  for (std::uint32_t i = 0; i < kLinesPerGranule; ++i) Free(first * kLinesPerGranule + i);
  // The member met the first granule again in another place, where it stayed empty.
  ASSERT_OK(theirs_.EnsureLine(first * kLinesPerGranule, kMemgest, 2, 10 * kBlockCells));
  AdoptNow();
  for (int i = 0; i < 64; ++i) AllocateAnew(64);
  EXPECT_EQ(adopted_->block_count(), 1u);
}

TEST_F(SlotAdopt, LinesThatContradictEachOtherAreDataLoss) {
  Allocate(64);
  Allocate(2 * kBlockSize);
  const std::uint32_t small = given_.begin()->second.slot.offset_cells;
  for (const auto& [line, given] : given_) {
    if (given.ranges.empty()) continue;
    const Range over{small / kBlockCells * kBlockCells, 2 * kBlockCells};
    theirs_.SetRanges(line, absl::MakeConstSpan(&over, 1));
  }
  SlotAllocator adopted(kMemgest, kBlockSize, &theirs_, &new_heap_);
  std::uint64_t all = ~std::uint64_t{0};
  EXPECT_THAT(adopted.Adopt(0, BlockState::kPresent, &all), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SlotAdopt, S4NoSlotOfALostBlockIsGivenOut) {
  for (int i = 0; i < 10; ++i) Allocate(1000);
  Allocate(2 * kBlockSize);
  const std::uint32_t one = given_.begin()->first;
  AdoptNow(8, BlockState::kLost);
  EXPECT_EQ(adopted_->lost_count(), 8u);
  const auto anew = [this](std::uint32_t length) {
    std::vector<Range> ranges;
    absl::StatusOr<Slot> slot =
        length > kBlockSize ? adopted_->AllocateLarge(length, &ranges) : adopted_->Allocate(length);
    EXPECT_OK(slot.status());
    return (ranges.empty() ? slot->offset_cells : ranges[0].offset_cells) / kBlockCells;
  };
  for (const std::uint32_t length : {1000u, 64u, 8192u, 20000u}) EXPECT_GE(anew(length), 8u);
  // Freeing works, reuse does not: its old bytes are not known here.
  theirs_.Clear(one);
  adopted_->Free(one, given_[one].slot.size_class, given_[one].slot.offset_cells, {});
  for (int i = 0; i < 200; ++i) EXPECT_GE(anew(1000), 8u);
  EXPECT_EQ(adopted_->Peek(1000).line == one, false);
  const std::uint32_t block = given_[one].slot.offset_cells / kBlockCells;
  adopted_->SetDecoding(block);
  EXPECT_EQ(adopted_->state(block), BlockState::kDecoding);
  for (int i = 0; i < 200; ++i) EXPECT_GE(anew(1000), 8u);
  adopted_->SetPresent(block, 77, /*zero=*/false);
  EXPECT_EQ(adopted_->state(block), BlockState::kPresent);
  EXPECT_EQ(adopted_->LastTouch(block), 77u) << "S2";
  bool found = false;
  for (int i = 0; i < 200 && !found; ++i) found = anew(1000) == block;
  EXPECT_TRUE(found) << "a block that is here again is used";
}

TEST_F(SlotAdopt, S3NothingOfALostBlockIsReleasedAndAllOfAPresentOneIsTouched) {
  for (int i = 0; i < 8; ++i) Allocate(1000);
  AdoptNow(2);
  adopted_->SetLost(0);
  adopted_->SetLost(1);
  const std::vector<std::uint32_t> lines = [this] {
    std::vector<std::uint32_t> all;
    for (const auto& [line, given] : given_) all.push_back(line);
    return all;
  }();
  for (const std::uint32_t line : lines) {
    theirs_.Clear(line);
    adopted_->Free(line, given_[line].slot.size_class, given_[line].slot.offset_cells, {});
  }
  for (bool again = true; again;) {
    EXPECT_EQ(adopted_->NextRelease(1u << 15, &again).length_cells, 0u);
  }
  adopted_->SetDecoding(1);
  adopted_->SetPresent(1, 0, /*zero=*/false);
  bool again = true;
  Range range;
  while (again && range.length_cells == 0) range = adopted_->NextRelease(1u << 15, &again);
  EXPECT_EQ(range.offset_cells, kBlockCells);
  EXPECT_EQ(range.length_cells, kBlockCells) << "bytes of free slots count in the parities";
}

// Who decodes a lost block writes where it lies, whatever became of its neighbours.
TEST_F(SlotAdopt, S4AChunkWithALostBlockStays) {
  constexpr std::uint32_t kChunkBlocks = HeapSpace::kChunkCells / kBlockCells;
  AdoptNow(2 * kChunkBlocks, BlockState::kLost);
  const auto bring = [this](std::uint32_t block) {
    ASSERT_OK(new_heap_.Ensure(block * kBlockCells, kBlockCells));
    adopted_->SetDecoding(block);
    adopted_->SetPresent(block, 1, /*zero=*/false);
  };
  const auto walk = [this] {
    for (bool again = true; again;) {
      const Range range = adopted_->NextRelease(1u << 15, &again);
      new_heap_.Release(range.offset_cells, range.length_cells);
    }
  };
  for (std::uint32_t block = kChunkBlocks; block < 2 * kChunkBlocks - 1; ++block) bring(block);
  walk();
  EXPECT_EQ(new_heap_.touched_bytes(), 0u);
  EXPECT_TRUE(new_heap_.Has(HeapSpace::kChunkCells, 1));
  bring(2 * kChunkBlocks - 1);
  walk();
  EXPECT_FALSE(new_heap_.Has(HeapSpace::kChunkCells, 1));
}

// F11: the chunks that came to nothing have no memory at the next coordinator, and serve it yet.
TEST_F(SlotAdopt, WhatIsFreeOfAPresentMemgestHasNoMemoryBeforeItIsNeeded) {
  constexpr std::uint32_t kQuarter = HeapSpace::kChunkSize / 4;
  for (int i = 0; i < 16; ++i) Allocate(kQuarter);
  std::vector<std::uint32_t> gone;
  for (const auto& [line, given] : given_) {
    if (given.ranges.front().offset_cells / HeapSpace::kChunkCells % 2 == 1) gone.push_back(line);
  }
  ASSERT_EQ(gone.size(), 8u);
  for (const std::uint32_t line : gone) Free(line);
  AdoptNow(old_->block_count());
  EXPECT_EQ(new_heap_.reserved_bytes(), 2 * HeapSpace::kChunkSize);
  std::uint32_t released = 0;
  for (bool again = true; again;) {
    const Range range = adopted_->NextRelease(1u << 15, &again);
    new_heap_.Release(range.offset_cells, range.length_cells);
    released += range.length_cells;
  }
  EXPECT_EQ(released, 2 * HeapSpace::kChunkCells) << "members may hold it";
  for (int i = 0; i < 8; ++i) AllocateAnew(kQuarter);
  EXPECT_EQ(adopted_->block_count(), old_->block_count()) << "others were taken";
  EXPECT_EQ(new_heap_.reserved_bytes(), 4 * HeapSpace::kChunkSize);
}

// ... of a coded one when it is known that it is zero, unless it has bytes that count.
TEST_F(SlotAdopt, S3ABlockThatIsZeroIsPresentWithoutMemory) {
  constexpr std::uint32_t kChunkBlocks = HeapSpace::kChunkCells / kBlockCells;
  Allocate(1000);
  AdoptNow(2 * kChunkBlocks, BlockState::kLost);
  EXPECT_EQ(new_heap_.reserved_bytes(), HeapSpace::kChunkSize);
  const std::uint64_t touched = new_heap_.touched_bytes();
  for (std::uint32_t block = 1; block < 2 * kChunkBlocks - 1; ++block) {
    adopted_->SetDecoding(block);
    adopted_->SetPresent(block, 1, /*zero=*/true);
  }
  EXPECT_EQ(adopted_->lost_count(), 2u);
  EXPECT_EQ(new_heap_.reserved_bytes(), HeapSpace::kChunkSize);
  EXPECT_EQ(new_heap_.touched_bytes(), touched);
  for (int i = 0; i < 2; ++i) AllocateAnew((kChunkBlocks - 1) * kBlockSize);
  EXPECT_EQ(adopted_->block_count(), 2 * kChunkBlocks) << "others were taken";
}

// Whoever held it before: pages that this heap never had are named all the same.
TEST_F(SlotAdopt, WhatMembersMayHoldOfFreePagesIsReleasedOnce) {
  for (int i = 0; i < 80; ++i) Allocate(kBlockSize);
  for (int i = 0; i < 60; ++i) Free(given_.begin()->first);
  AdoptNow(old_->block_count());
  EXPECT_EQ(new_heap_.touched_bytes(), 20u * kBlockSize);
  EXPECT_TRUE(adopted_->release_due());
  EXPECT_TRUE(adopted_->EndReleasePeriod());
  std::uint32_t released = 0;
  for (bool again = true; again;) {
    const Range range = adopted_->NextRelease(1u << 15, &again);
    for (std::uint32_t i = 0; i < range.length_cells; ++i)
      ASSERT_FALSE(cells_.contains(range.offset_cells + i)) << "a version's";
    new_heap_.Release(range.offset_cells, range.length_cells);
    released += range.length_cells;
  }
  EXPECT_EQ(released, 60 * kBlockCells);
  EXPECT_EQ(new_heap_.held_bytes(), 20u * kBlockSize);
  EXPECT_FALSE(adopted_->release_due());
  for (bool again = true; again;)
    EXPECT_EQ(adopted_->NextRelease(1u << 15, &again).length_cells, 0u);
}

TEST_F(SlotAdopt, AFullHeapOfATakenOverShardIsNotWalked) {
  for (int i = 0; i < 80; ++i) Allocate(kBlockSize);
  AdoptNow(old_->block_count());
  EXPECT_FALSE(adopted_->release_due());
}

// S2 and S4 at a time: a block that is frozen when it comes back stays shut until the thaw.
TEST_F(SlotAdopt, AFrozenBlockThatBecomesPresentWaitsForTheThaw) {
  Allocate(1000);
  AdoptNow(1);
  adopted_->SetLost(0);
  adopted_->Freeze(0);
  ASSERT_OK_AND_ASSIGN(const Slot elsewhere, adopted_->Allocate(1000));
  EXPECT_NE(elsewhere.offset_cells / kBlockCells, 0u);
  adopted_->Thaw(0);
  ASSERT_OK_AND_ASSIGN(const Slot still, adopted_->Allocate(1000));
  EXPECT_NE(still.offset_cells / kBlockCells, 0u);
  adopted_->Freeze(0);
  adopted_->SetDecoding(0);
  adopted_->SetPresent(0, 0, /*zero=*/false);
  ASSERT_OK_AND_ASSIGN(const Slot frozen, adopted_->Allocate(1000));
  EXPECT_NE(frozen.offset_cells / kBlockCells, 0u);
  adopted_->Thaw(0);
  bool found = false;
  for (int i = 0; i < 64 && !found; ++i) {
    found = adopted_->Allocate(1000)->offset_cells / kBlockCells == 0;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace ring::memgest
