// S6: a new parity gets what the shards hold while they go on; S4, E5, epoch changes meanwhile.
#include "memgest/parity_rebuild.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/memgest/coded_group.h"
#include "tests/support/random_seed.h"

namespace ring::memgest {
namespace {

using Pushed = ParityRebuild::Pushed;
constexpr std::uint32_t kBlock = CodedGroup::kBlock;
constexpr std::uint32_t kBlockCells = kBlock / 64;

// Puts and collections on all shards until each has used some extents.
void Fill(CodedGroup& group, int puts) {
  for (int n = 0; n < puts; ++n) {
    for (int i = 0; i < group.shard_count(); ++i) {
      group.Put(i, static_cast<std::uint32_t>(1 + group.random().Below(kBlock)));
      if (n % 3 == 0) group.Collect(i);
      group.Turn(i);
      for (int j = 0; j < 2; ++j) group.Fold(i, j, 4);
    }
  }
  group.Settle();
}

// Parity 1 is lost, and all shards go on with parity 0.
void LoseSecond(CodedGroup& group) {
  group.Lose(1);
  for (int i = 0; i < group.shard_count(); ++i) {
    group.BeginEpoch(i, {0});
    group.Normal(i);
  }
}

void JoinSecond(CodedGroup& group) {
  for (int i = 0; i < group.shard_count(); ++i) {
    group.Join(i, 1);
    group.Name(i, 1);
  }
}

// Every row that the parity covers is right; gives how many it covers.
int Compare(CodedGroup& group, int j) {
  const CodedGroup::Compared compared = group.Compare(j);
  EXPECT_EQ(compared.wrong, 0) << compared.first_wrong;
  return compared.rows;
}

bool AllComplete(CodedGroup& group) {
  for (int i = 0; i < group.shard_count(); ++i) {
    if (!group.shard(i).memgest->rebuild().Complete(group.RoleOf(1), *group.shard(i).log)) {
      return false;
    }
  }
  return true;
}

TEST(ParityRebuild, S6PutsGoOnWhileAParityIsRebuilt) {
  const std::uint64_t seed = ring::testing::SeedFor("rebuild");
  for (int run = 0; run < 6; ++run) {
    SCOPED_TRACE(run);
    CodedGroup group(seed + static_cast<std::uint64_t>(run), run % 2 == 0 ? 2 : 3, 2, 3);
    Fill(group, 60);
    EXPECT_GT(Compare(group, 1), 0);
    LoseSecond(group);
    Fill(group, 10);
    std::vector<bool> joined(3, false);
    int under_load = 0;
    for (int step = 0; step < 4000; ++step) {
      const int i = static_cast<int>(group.random().Below(3));
      if (!joined[static_cast<std::size_t>(i)] && group.random().Below(40) == 0) {
        group.Join(i, 1);
        for (std::uint64_t n = group.random().Below(4); n > 0; --n) group.Put(i, 500);
        group.Name(i, 1);
        joined[static_cast<std::size_t>(i)] = true;
      }
      const std::uint64_t dice = group.random().Below(8);
      if (dice < 3) {
        const bool put = group.Put(i, static_cast<std::uint32_t>(1 + group.random().Below(2000)));
        under_load += put && !AllComplete(group) ? 1 : 0;
      } else if (dice == 3) {
        group.Collect(i);
      } else if (dice == 4) {
        group.Rebuild(i);
      } else if (dice == 5) {
        group.Fold(i, static_cast<int>(group.random().Below(2)),
                   static_cast<int>(group.random().Below(8)));
      } else {
        group.Turn(i);
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(under_load, 30);
    group.Settle(/*rebuild=*/true);
    ASSERT_TRUE(AllComplete(group));
    const int rows = Compare(group, 0);
    EXPECT_GT(rows, 10);
    EXPECT_EQ(Compare(group, 1), rows) << "all of it is covered";
    // Nothing is barred any more, and it goes on.
    for (int i = 0; i < 3; ++i) group.Normal(i);
    Fill(group, 20);
    EXPECT_EQ(Compare(group, 0), Compare(group, 1));
  }
}

// Between two BASEs anything may be compared that is covered, and nothing else is.
TEST(ParityRebuild, S6RowsAreComparableOnceAllTheirBlocksAreBased) {
  CodedGroup group(ring::testing::SeedFor("rows"), 2, 2, 3);
  Fill(group, 40);
  LoseSecond(group);
  JoinSecond(group);
  group.Settle();
  int covered = Compare(group, 1);
  EXPECT_LT(covered, Compare(group, 0));
  while (!AllComplete(group)) {
    for (int i = 0; i < 3; ++i) {
      group.Rebuild(i);
      if (group.random().Below(4) == 0) group.Put(i, 700);
    }
    group.Settle();
    const int now = Compare(group, 1);
    EXPECT_GE(now, covered);
    covered = now;
  }
  EXPECT_EQ(covered, Compare(group, 0));
}

TEST(ParityRebuild, S6NothingIsGivenOutWhereANewParityHasNothing) {
  CodedGroup group(ring::testing::SeedFor("allocation"), 2, 2, 3);
  Fill(group, 40);
  for (int n = 0; n < 30; ++n) group.Collect(0);
  Fill(group, 2);  // and their slots are free
  LoseSecond(group);
  JoinSecond(group);
  const std::vector<ParityRebuild::From> from = group.shard(0).memgest->rebuild().parities();
  ASSERT_EQ(from.size(), 1u);
  const std::uint64_t extent_cells = group.codec().layout().extent_size() / 64;
  bool low = false;
  for (int n = 0; n < 300; ++n) {
    ASSERT_TRUE(group.Put(0, static_cast<std::uint32_t>(1 + group.random().Below(3000))));
    const Slot slot = group.shard(0).live.back().slot;
    group.Turn(0);
    for (int j = 0; j < 2; ++j) group.Fold(0, j);
    const ParityStore& store = *group.parity(1).store;
    const bool based = slot.offset_cells + CellCount(1) <= store.based_cells(ShardId(0));
    EXPECT_TRUE(based || slot.offset_cells >= from[0].extent * extent_cells)
        << "offset_cells=" << slot.offset_cells;
    low |= based;
    if (n > 20) group.Rebuild(0);
  }
  EXPECT_TRUE(low) << "freed slots come into use again once they are based";
}

// A coordinator that does not know what was sent sends all of it again.
TEST(ParityRebuild, S6ABaseThatComesTwiceIsCountedOnce) {
  CodedGroup group(ring::testing::SeedFor("twice"), 3, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  for (int n = 0; n < 12; ++n) {
    for (int i = 0; i < 3; ++i) group.Rebuild(i);
    group.Settle();
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_GT(group.parity(1).store->based_cells(ShardId(static_cast<std::uint16_t>(i))), 0u);
    CodedGroup::Shard& shard = group.shard(i);
    const std::vector<ParityRebuild::From> from = shard.memgest->rebuild().parities();
    shard.memgest->rebuild().OnNormal(shard.active, {}, false);  // forgets
    shard.memgest->rebuild().OnNormal(shard.active, from, false);
    for (int n = 0; n < 5; ++n) ASSERT_TRUE(group.Put(i, 900));
  }
  group.Settle(/*rebuild=*/true);
  EXPECT_TRUE(AllComplete(group));
  EXPECT_EQ(Compare(group, 1), Compare(group, 0));
}

// S6: delta of a block that is not based, lost on its way, sent again in the next epoch, and
// the base behind it.
TEST(ParityRebuild, S6ADeltaThatIsSentAgainBeforeItsBaseIsCountedOnce) {
  CodedGroup group(ring::testing::SeedFor("again"), 2, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  group.Settle();
  ASSERT_EQ(group.parity(1).store->based_cells(ShardId(0)), 0u);
  group.link(0, 1).to_member.failed = true;  // nothing of the following arrives
  group.Part(0, 0, 1000);
  group.Part(0, 8, 300);
  ASSERT_EQ(group.Rebuild(0), Pushed::kOne);
  group.Part(0, 4, 2000);
  group.Turn(0);
  group.BeginEpoch(0, {0, 1});
  group.Normal(0);
  group.Settle();
  EXPECT_GT(group.parity(1).store->based_cells(ShardId(0)), 0u);
  group.Settle(/*rebuild=*/true);
  EXPECT_TRUE(AllComplete(group));
  EXPECT_EQ(Compare(group, 1), Compare(group, 0));
}

// ADR 18: a new parity that was named goes on through epoch changes with what it has.
TEST(ParityRebuild, S6AnEpochChangeInTheMiddleGoesOnWithWhatWasBased) {
  const std::uint64_t seed = ring::testing::SeedFor("epochs");
  for (int run = 0; run < 4; ++run) {
    SCOPED_TRACE(run);
    CodedGroup group(seed + static_cast<std::uint64_t>(run), 2, 2, 3);
    Fill(group, 40);
    LoseSecond(group);
    JoinSecond(group);
    for (int change = 0; change < 5; ++change) {
      for (int n = 0; n < 40; ++n) {
        const int i = static_cast<int>(group.random().Below(3));
        group.Put(i, static_cast<std::uint32_t>(1 + group.random().Below(3000)));
        if (group.random().Below(2) == 0) group.Rebuild(i);
        if (group.random().Below(2) == 0) group.Turn(i);
        group.Fold(i, 1, static_cast<int>(group.random().Below(3)));
      }
      const int i = static_cast<int>(group.random().Below(3));
      const std::uint64_t before = group.parity(1).store->based_cells(ShardId(0));
      if (group.random().Below(2) == 0) group.link(i, 1).to_member.failed = true;
      group.BeginEpoch(i, {0, 1});
      group.Normal(i);
      EXPECT_GE(group.parity(1).store->based_cells(ShardId(0)), before);
      if (::testing::Test::HasFatalFailure()) return;
    }
    group.Settle(/*rebuild=*/true);
    EXPECT_TRUE(AllComplete(group));
    EXPECT_EQ(Compare(group, 1), Compare(group, 0));
  }
}

// A parity that is lost again while it is rebuilt: the next one has a higher E0, and starts over.
TEST(ParityRebuild, S6TheNextNewParityStartsOver) {
  CodedGroup group(ring::testing::SeedFor("next"), 3, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  const std::uint64_t first = group.shard(0).memgest->rebuild().parities()[0].extent;
  for (int n = 0; n < 20; ++n) {
    for (int i = 0; i < 3; ++i) group.Rebuild(i);
    Fill(group, 1);
  }
  LoseSecond(group);
  EXPECT_FALSE(group.shard(0).memgest->rebuild().active());
  Fill(group, 10);
  JoinSecond(group);
  EXPECT_GT(group.shard(0).memgest->rebuild().parities()[0].extent, first);
  Fill(group, 5);
  group.Settle(/*rebuild=*/true);
  EXPECT_TRUE(AllComplete(group));
  EXPECT_EQ(Compare(group, 1), Compare(group, 0));
}

TEST(SlotAllocatorBar, S6NothingIsGivenOutOfBarredBlocksInUseOrNot) {
  TwinDevice device;
  LineTable lines(&device, CodedGroup::kLines);
  HeapSpace heap(&device);
  SlotAllocator allocator(MemgestId(2), kBlock, &lines, &heap);
  const auto free = [&allocator](const Slot& slot) {
    allocator.Free(slot.line, slot.size_class, slot.offset_cells, {});
  };
  std::vector<Slot> slots;
  for (int i = 0; i < 3; ++i) {  // block 0 in part, blocks 1 and 2
    ASSERT_OK_AND_ASSIGN(const Slot slot, allocator.Allocate(i == 0 ? 64 : kBlock));
    slots.push_back(slot);
  }
  allocator.Bar(0, 5);
  free(slots[2]);
  EXPECT_EQ(allocator.Peek(64).line, kNoLine);
  ASSERT_OK_AND_ASSIGN(const Slot small, allocator.Allocate(64));
  EXPECT_EQ(small.offset_cells / kBlockCells, 5u) << "blocks 3 and 4 were never used";
  ASSERT_OK_AND_ASSIGN(const Slot whole, allocator.Allocate(kBlock));
  EXPECT_EQ(whole.offset_cells / kBlockCells, 6u);
  std::vector<Range> ranges;
  ASSERT_OK(allocator.AllocateLarge(2 * kBlock, &ranges).status());
  EXPECT_EQ(ranges[0].offset_cells / kBlockCells, 7u);
  bool again = false;
  EXPECT_EQ(allocator.NextRelease(kBlockCells, &again).length_cells, 0u);
  allocator.Bar(3, 5);
  ASSERT_OK_AND_ASSIGN(const Slot freed, allocator.Allocate(kBlock));
  EXPECT_EQ(freed.offset_cells / kBlockCells, 2u);
  allocator.Bar(0, 0);
  // Blocks 3 and 4 come into use, and no slot of block 0 was lost.
  std::set<std::uint32_t> blocks;
  for (int i = 0; i < 255 + 255 + 2 * 256; ++i) {
    ASSERT_OK_AND_ASSIGN(const Slot slot, allocator.Allocate(64));
    blocks.insert(slot.offset_cells / kBlockCells);
  }
  EXPECT_TRUE(blocks.contains(0) && blocks.contains(3));
  EXPECT_FALSE(blocks.contains(9));
}

// What is frozen may stand right before what is barred.
TEST(SlotAllocatorBar, S6ANewBlockBehindAFrozenOneIsNotABarredOne) {
  for (const bool large : {false, true}) {
    TwinDevice device;
    LineTable lines(&device, CodedGroup::kLines);
    HeapSpace heap(&device);
    SlotAllocator allocator(MemgestId(2), kBlock, &lines, &heap);
    ASSERT_OK(allocator.Allocate(kBlock).status());
    allocator.Bar(2, 3);
    allocator.Freeze(1);
    std::vector<Range> ranges;
    ASSERT_OK_AND_ASSIGN(const Slot slot, large ? allocator.AllocateLarge(2 * kBlock, &ranges)
                                                : allocator.Allocate(kBlock));
    EXPECT_EQ((large ? ranges[0].offset_cells : slot.offset_cells) / kBlockCells, 3u);
    allocator.Thaw(1);
    allocator.Bar(0, 0);
    std::set<std::uint32_t> blocks;
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK_AND_ASSIGN(const Slot one, allocator.Allocate(kBlock));
      blocks.insert(one.offset_cells / kBlockCells);
    }
    EXPECT_EQ(blocks, (std::set<std::uint32_t>{1, 2}));
  }
}

// Both parities are new, one after the other: each gets what it lacks, and no more.
TEST(ParityRebuild, S6TwoNewParitiesShareWhatBothLack) {
  CodedGroup group(ring::testing::SeedFor("two"), 3, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  for (int n = 0; n < 15; ++n) {
    for (int i = 0; i < 3; ++i) group.Rebuild(i);
    Fill(group, 1);
  }
  group.Lose(0);
  for (int i = 0; i < 3; ++i) {
    group.BeginEpoch(i, {1});
    group.Normal(i);
    group.Join(i, 0);
    group.Name(i, 0);
  }
  Fill(group, 5);
  group.Settle(/*rebuild=*/true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(group.parity(0).store->Covers(ShardId(static_cast<std::uint16_t>(i))));
    EXPECT_TRUE(group.parity(1).store->Covers(ShardId(static_cast<std::uint16_t>(i))));
  }
  EXPECT_EQ(Compare(group, 1), Compare(group, 0));
}

// S4: what is not here is not what the block holds.
TEST(ParityRebuild, S6ALostBlockIsBasedWhenItIsPresentAgain) {
  CodedGroup group(ring::testing::SeedFor("lost"), 2, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  SlotAllocator& allocator = group.shard(0).memgest->allocator();
  allocator.SetLost(1);
  for (int n = 0; n < 20; ++n) {
    group.Rebuild(0);
    group.Settle();
  }
  EXPECT_EQ(group.parity(1).store->based_cells(ShardId(0)), kBlockCells);
  EXPECT_EQ(group.Rebuild(0), Pushed::kNothing);
  allocator.SetDecoding(1);
  EXPECT_EQ(group.Rebuild(0), Pushed::kNothing);
  allocator.SetPresent(1, allocator.LastTouch(1), /*zero=*/false);
  group.Settle(/*rebuild=*/true);
  EXPECT_TRUE(AllComplete(group));
  EXPECT_EQ(Compare(group, 1), Compare(group, 0));
}

// One at a time, and small enough for the reserve (E5).
TEST(ParityRebuild, E5ABaseFindsRoomInTheReserveAndWaitsForTheOneBefore) {
  CodedGroup group(ring::testing::SeedFor("reserve"), 2, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  ASSERT_EQ(group.Rebuild(0), Pushed::kOne);
  EXPECT_EQ(group.Rebuild(0), Pushed::kWaits);
  group.Settle();
  // Parity 1 folds nothing: puts fill its ring but for the reserve.
  while (group.Put(0, 1500)) group.Turn(0);
  group.Turn(0);
  ASSERT_FALSE(group.Put(0, 1500));
  EXPECT_EQ(group.Rebuild(0), Pushed::kOne);
  group.Settle(/*rebuild=*/true);
  EXPECT_EQ(Compare(group, 1), Compare(group, 0));
}

// Only the new parity gets the bytes; the index is everybody's.
TEST(ParityRebuild, S6ABaseIsBareForWhoNeedsNone) {
  CodedGroup group(ring::testing::SeedFor("bare"), 2, 2, 3);
  Fill(group, 30);
  LoseSecond(group);
  JoinSecond(group);
  group.Settle();
  const LogWriter& to_old = *group.shard(0).log->links()[0].writer;
  const LogWriter& to_new = *group.shard(0).log->links()[1].writer;
  const std::uint64_t old_position = to_old.position();
  const std::uint64_t new_position = to_new.position();
  ASSERT_EQ(group.Rebuild(0), Pushed::kOne);
  group.Settle();
  EXPECT_LE(to_old.position() - old_position, kEntryHeaderSize + kEntryTrailerSize + 64u);
  EXPECT_GE(to_new.position() - new_position, 4096u);
  EXPECT_EQ(group.member(0, 0).applied(CodedGroup::kSrs),
            group.member(0, 1).applied(CodedGroup::kSrs));
}

}  // namespace
}  // namespace ring::memgest
