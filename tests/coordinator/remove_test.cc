// delete: G4, G5, V9.
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::MemgestState;
using protocol::Outcome;

MemgestId HomeOf(ShardHarness& harness, absl::string_view key) {
  return MemgestId(harness.shard().lines().line(harness.HeadLine(key)).memgest);
}

// G4: the tombstone goes where the strongest version is, not where the newest is.
TEST(Remove, G4TheTombstoneOutlivesEveryVersionBelowIt) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "strong"));
  harness.Settle();
  harness.Run(harness.Put(kRep1, "k", "weak"));
  harness.SetFlow(true, false);
  const int removed = harness.Delete("k");
  EXPECT_EQ(HomeOf(harness, "k"), kSrs32);
  harness.Turns(5);
  EXPECT_FALSE(harness.answered(removed));
  harness.Settle();
  EXPECT_EQ(harness.outcome(removed), Outcome::kOk);
  EXPECT_EQ(harness.LiveLines(), 0u);
  harness.Scrub();
}

TEST(Remove, G4AVersionInFlightCountsToo) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  harness.Put(kRep4, "k", "strong, in flight");
  harness.Put(kRep1, "k", "weak");
  harness.Delete("k");
  EXPECT_EQ(HomeOf(harness, "k"), kRep4);
  harness.Settle();
  harness.Scrub();
}

TEST(Remove, G4IfItsMemgestIsNotWritableAnotherStrongOneTakesTheTombstone) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "strong"));
  harness.shard().SetMemgestState(kSrs32, MemgestState::kDraining);
  harness.SetFlow(true, false);
  harness.Delete("k");
  EXPECT_EQ(HomeOf(harness, "k"), kRep4);  // the other one with f = 2
  harness.Settle();
  harness.Scrub();
}

// It goes with the last version there.
TEST(Remove, G4WithoutAWritableMemgestAsStrongItGoesWhereTheVersionIs) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "strong"));
  harness.shard().SetMemgestState(kSrs32, MemgestState::kDraining);
  harness.shard().SetMemgestState(kRep4, MemgestState::kDraining);
  harness.SetFlow(true, false);
  const int removed = harness.Delete("k");
  EXPECT_EQ(HomeOf(harness, "k"), kSrs32);
  harness.Settle();
  EXPECT_EQ(harness.outcome(removed), Outcome::kOk);
  EXPECT_EQ(harness.LiveLines(), 0u);
  harness.Scrub();
}

// Its record would be lost with this node, and there is a memgest that would keep it.
TEST(Remove, X7WhileAllThatKeepsRecordsIsDrainedAKeyOfRep1IsNotDeleted) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep1, "k", "weak"));
  for (std::uint16_t id = 1; id < kMemgestCount; ++id)
    harness.shard().SetMemgestState(MemgestId(id), MemgestState::kDraining);
  const int removed = harness.Delete("k");
  EXPECT_EQ(harness.Run(removed).outcome, Outcome::kUnavailable);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "weak");
  harness.shard().SetMemgestState(kRep2, MemgestState::kActive);
  EXPECT_EQ(harness.Run(harness.Resend(removed)).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

TEST(Remove, G4OfAMissingKeyWritesNothing) {
  ShardHarness harness;
  EXPECT_EQ(harness.Run(harness.Delete("k")).outcome, Outcome::kNotFound);
  EXPECT_EQ(harness.shard().log().next_order(), 1u);
}

// Its tombstone commits without role 3, which the put of the other log waits for: if the
// coordinator died, the put would be gone, and come again behind a delete that had told of it.
TEST(Remove, V9ADeleteTellsNothingThatAnotherLogMayLose) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep4, "k", "old"));
  harness.Settle();
  harness.member(3).lands = harness.member(3).acks = false;
  EXPECT_EQ(harness.Run(harness.Delete("k")).outcome, Outcome::kOk);
  ASSERT_EQ(HomeOf(harness, "k"), kRep4);
  const int put = harness.Put(kSrs21, "k", "new");
  const int removed = harness.Delete("k");
  harness.Turns(20);
  EXPECT_FALSE(harness.answered(put));
  EXPECT_FALSE(harness.answered(removed));
  harness.SetFlow(true, true);
  harness.Settle();
  EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  EXPECT_EQ(harness.outcome(removed), Outcome::kOk);
  EXPECT_EQ(harness.LiveLines(), 0u);
  harness.Scrub();
}

// ... nor that it stands above a tombstone which is not committed.
TEST(Remove, V9WhatATombstoneHidesSaysNotThatTheKeyIsThere) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int first = harness.Put(kRep4, "k", "old");
  const int gone = harness.Delete("k");
  ASSERT_EQ(HomeOf(harness, "k"), kRep4);
  const int put = harness.Put(kSrs21, "k", "new");
  const int removed = harness.Delete("k");
  EXPECT_EQ(HomeOf(harness, "k"), kSrs21) << "the delete waits for the put";
  harness.Settle();
  for (const int number : {first, gone, put, removed})
    EXPECT_EQ(harness.outcome(number), Outcome::kOk) << number;
  harness.Scrub();
}

// ... but one of its own log commits before it: nothing is waited for.
TEST(Remove, V9APutOfTheSameLogIsNotWaitedFor) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  harness.Put(kRep4, "k", "new");
  harness.Put(kSrs21, "k", "newer");
  harness.Delete("k");
  EXPECT_EQ(HomeOf(harness, "k"), kRep4);
  EXPECT_EQ(harness.Chain("k").size(), 3u);
  harness.Settle();
  harness.Scrub();
}

// G4, kill half-way: whatever prefix of the logs is committed, no lower version is without the
// tombstone above it.
TEST(Remove, G4NothingBelowIsCollectedBeforeTheTombstonesCommit) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "strong"));
  harness.Settle();
  harness.Run(harness.Put(kRep1, "k", "weak"));
  harness.SetFlow(true, false);
  harness.Delete("k");
  for (int i = 0; i < 10; ++i) {
    harness.Turn(2'000'000);
    EXPECT_EQ(harness.Chain("k").size(), 3u);
  }
  harness.Settle();
  harness.Scrub();
}

TEST(Remove, G5DeletedAndPutAgainManyTimes) {
  ShardHarness harness;
  for (std::uint16_t round = 0; round < 60; ++round) {
    const std::string value = "round " + std::to_string(round);
    harness.Put(MemgestId(round % kMemgestCount), "k", value);
    if (round % 3 == 0) harness.Turn(2'000'000);
    harness.Delete("k");
    if (round % 4 == 0) harness.Turn(2'000'000);
  }
  harness.Settle();
  EXPECT_EQ(harness.LiveLines(), 0u);
  EXPECT_EQ(harness.shard().keys().size(), 0u);
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
