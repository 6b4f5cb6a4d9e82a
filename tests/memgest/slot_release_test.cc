// What freed slots and blocks left behind: pages first, then chunks: S2, S14.
#include <vector>

#include "gtest/gtest.h"
#include "memgest/slot_allocator.h"
#include "tests/memgest/slot_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using Fixture = SlotFixture;
using ::ring::testing::StatusIs;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr std::uint32_t kBlock = Fixture::kBlock;
constexpr std::uint32_t kBlockCells = kBlock / 64;
// Eight of them are a chunk.
constexpr std::uint32_t kLongBlock = 256 * 1024;
constexpr std::uint32_t kLongCells = kLongBlock / 64;

TEST(SlotRelease, GivesBackThePagesOfFreedSlotsOnly) {
  Fixture f(1u << 16, 65536);
  std::vector<Slot> slots;
  for (int i = 0; i < 16; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(4096));
    slots.push_back(slot);
  }
  for (const int i : {2, 3, 9}) f.Free(slots[static_cast<std::size_t>(i)]);
  const std::vector<Range> ranges = Walk(f);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].offset_cells, slots[2].offset_cells);
  EXPECT_EQ(ranges[0].length_cells, 128u);
  EXPECT_EQ(ranges[1].offset_cells, slots[9].offset_cells);
  EXPECT_EQ(ranges[1].length_cells, 64u);
  EXPECT_EQ(f.heap.touched_bytes(), 13u * 4096);
  EXPECT_TRUE(Walk(f).empty()) << "given back already";
  // The slots are still slots (S14).
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(4096));
    EXPECT_LT(slot.offset_cells, 1024u);
  }
  EXPECT_EQ(f.heap.touched_bytes(), 16u * 4096);
}

TEST(SlotRelease, APageWithOneTakenSlotStays) {
  Fixture f(1u << 16, 65536);
  std::vector<Slot> slots;
  for (int i = 0; i < 8; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(1024));
    slots.push_back(slot);
  }
  for (const int i : {0, 1, 2, 4, 5, 6, 7}) f.Free(slots[static_cast<std::size_t>(i)]);
  const std::vector<Range> ranges = Walk(f);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].offset_cells, slots[4].offset_cells);
  EXPECT_EQ(ranges[0].length_cells, 64u);
}

TEST(SlotRelease, S2AFrozenBlockIsNotGivenBack) {
  Fixture f;
  ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(kBlock));
  f.Free(slot);
  f.allocator.Freeze(slot.offset_cells / kBlockCells);
  EXPECT_TRUE(Walk(f).empty());
  f.allocator.Thaw(slot.offset_cells / kBlockCells);
  EXPECT_EQ(Walk(f).size(), 1u);
}

TEST(SlotRelease, S10BlocksOfALargeValueStayUntilItIsFreed) {
  Fixture f;
  std::vector<Range> ranges;
  ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.AllocateLarge(5 * kBlock, &ranges));
  EXPECT_EQ(f.heap.touched_bytes(), 5u * kBlock);
  EXPECT_TRUE(Walk(f).empty());
  f.Free(slot, ranges);
  EXPECT_EQ(Walk(f, kBlockCells).size(), 5u);
  EXPECT_EQ(f.heap.touched_bytes(), 0u);
}

TEST(SlotRelease, AWalkIsDueWhenAnEighthWasFreed) {
  Fixture f(1u << 16, 65536);
  std::vector<Slot> slots;
  for (int i = 0; i < 160; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, f.allocator.Allocate(65536));
    slots.push_back(slot);
  }
  std::size_t freed = 0;
  while (!f.allocator.release_due()) {
    ASSERT_LT(freed, slots.size());
    f.Free(slots[freed++]);
  }
  EXPECT_EQ(freed, 18u);  // of 142 that are left
  EXPECT_FALSE(f.allocator.EndReleasePeriod()) << "it was in use in this period";
  EXPECT_TRUE(f.allocator.EndReleasePeriod());
  Walk(f);
  EXPECT_FALSE(f.allocator.release_due());
}

// Slots of whole blocks.
std::vector<Slot> Fill(Fixture& f, int count) {
  std::vector<Slot> slots;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<Slot> slot = f.allocator.Allocate(kLongBlock);
    EXPECT_OK(slot.status());
    if (slot.ok()) slots.push_back(*slot);
  }
  return slots;
}

TEST(SlotRelease, AChunkOfWhichNothingIsLeftGoesBackAndComesAgain) {
  Fixture f(1u << 16, kLongBlock);
  const std::vector<Slot> slots = Fill(f, 24);
  for (int i = 7; i < 23; ++i) f.Free(slots[static_cast<std::size_t>(i)]);
  Walk(f);
  EXPECT_EQ(f.heap.reserved_bytes(), 2 * HeapSpace::kChunkSize) << "the second of three went";
  EXPECT_FALSE(f.heap.Has(8 * kLongCells, 1));
  EXPECT_TRUE(f.heap.Has(23 * kLongCells, 1));
  EXPECT_TRUE(Walk(f).empty());
  const Slot hint = f.allocator.Peek(kLongBlock);
  EXPECT_TRUE(hint.line == kNoLine || f.heap.Has(hint.offset_cells, 1));
  for (const Slot& slot : Fill(f, 16)) {
    EXPECT_TRUE(f.heap.Has(slot.offset_cells, kLongCells));
    EXPECT_EQ(*f.heap.At(slot.offset_cells), std::byte{0});
  }
  EXPECT_EQ(f.allocator.block_count(), 24u) << "grew although blocks were free";
  EXPECT_EQ(f.heap.reserved_bytes(), 3 * HeapSpace::kChunkSize);
}

TEST(SlotRelease, TheFirstChunkStays) {
  Fixture f(1u << 16, kLongBlock);
  const std::vector<Slot> slots = Fill(f, 8);
  for (const Slot& slot : slots) f.Free(slot);
  Walk(f);
  EXPECT_EQ(f.heap.touched_bytes(), 0u);
  EXPECT_EQ(f.device.freed, 0u);
  EXPECT_EQ(f.allocator.Peek(kLongBlock).line, slots[0].line) << "its slots are still slots";
}

TEST(SlotRelease, F11BlocksThatWentAreNotGivenOutWithoutMemoryNorLost) {
  Fixture f(1u << 16, kLongBlock);
  const std::vector<Slot> slots = Fill(f, 24);
  for (std::size_t i = 4; i < slots.size(); ++i) f.Free(slots[i]);
  Walk(f);
  f.device.limit = f.device.reserved;  // others have it
  EXPECT_EQ(Fill(f, 4).size(), 4u) << "of the chunk that is there";
  const std::uint64_t used_bytes = f.allocator.used_bytes();
  EXPECT_THAT(f.allocator.Allocate(kLongBlock), StatusIs(kExhausted));
  EXPECT_THAT(f.allocator.Allocate(1), StatusIs(kExhausted));
  EXPECT_EQ(f.allocator.used_bytes(), used_bytes);
  f.device.limit = ~std::size_t{0} / 2;
  EXPECT_EQ(Fill(f, 16).size(), 16u);
  EXPECT_EQ(f.allocator.block_count(), 24u);
}

TEST(SlotRelease, S10ALargeValueTakesBlocksThatWentOrNothing) {
  Fixture f(1u << 16, kLongBlock);
  std::vector<Range> ranges;
  ASSERT_OK_AND_ASSIGN(const Slot large, f.allocator.AllocateLarge(5u << 20, &ranges));
  f.Free(large, ranges);
  Walk(f);
  ASSERT_EQ(f.heap.reserved_bytes(), HeapSpace::kChunkSize);
  const std::size_t reserved = f.device.reserved;
  f.device.limit = reserved + HeapSpace::kChunkSize;  // two are needed
  EXPECT_THAT(f.allocator.AllocateLarge(5u << 20, &ranges), StatusIs(kExhausted));
  EXPECT_EQ(f.device.reserved, reserved) << "what it took for nothing serves others";
  f.device.limit = ~std::size_t{0} / 2;
  ASSERT_OK(f.allocator.AllocateLarge(5u << 20, &ranges).status());
  EXPECT_EQ(f.allocator.block_count(), 20u);
  EXPECT_EQ(ranges.size(), 3u);
  for (const Range& range : ranges) EXPECT_TRUE(f.heap.Has(range.offset_cells, range.length_cells));
}

// Its reader has the bytes sent from where they are, zero or not, in use or not.
TEST(SlotRelease, S2AChunkWithAFrozenBlockStays) {
  Fixture f(1u << 16, kLongBlock);
  const std::vector<Slot> slots = Fill(f, 9);
  f.Free(slots[8]);
  f.allocator.Freeze(12);  // never used
  EXPECT_EQ(Walk(f).size(), 1u);
  EXPECT_TRUE(f.heap.Has(12 * kLongCells, kLongCells));
  f.allocator.Thaw(12);
  EXPECT_TRUE(Walk(f).empty());
  EXPECT_FALSE(f.heap.Has(12 * kLongCells, kLongCells));
}

TEST(SlotRelease, S6ABarredBlockThatWentStaysShut) {
  Fixture f(1u << 16, kLongBlock);
  const std::vector<Slot> slots = Fill(f, 16);
  for (std::size_t i = 8; i < slots.size(); ++i) f.Free(slots[i]);
  Walk(f);
  ASSERT_FALSE(f.heap.Has(8 * kLongCells, 1));
  f.allocator.Bar(8, 11);
  for (const Slot& slot : Fill(f, 6)) EXPECT_GE(slot.offset_cells, 11 * kLongCells);
  f.allocator.Bar(0, 0);
  for (const Slot& slot : Fill(f, 3)) EXPECT_LT(slot.offset_cells, 11 * kLongCells);
  EXPECT_EQ(f.allocator.block_count(), 17u);
}

}  // namespace
}  // namespace ring::memgest
