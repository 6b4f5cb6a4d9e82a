// A coordinator that lost its role: V6, V7, X5.
#include <string>
#include <vector>

#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

// Requests of every kind that wait: for a commit, for a version, for room, for a READ.
struct Waiters {
  std::vector<int> writes;
  std::vector<int> reads;
};
Waiters MakeWaiters(ShardHarness& harness) {
  harness.Run(harness.Put(kRep3, "old", "v"));
  harness.Settle();
  harness.SetFlow(false, false);
  harness.holds_reads = true;
  Waiters waiters;
  const int put = harness.Put(kSrs32, "k", Bytes(3000, 1));
  waiters.writes = {put,
                    harness.Resend(put),
                    harness.Delete("old"),
                    harness.Move("k", kRep3),
                    harness.Put(kRep3, "large", Bytes(300'000, 2), {.large = true}),
                    harness.Put(kSrs32, "large too", Bytes(300'000, 2), {.large = true})};
  waiters.reads = {harness.Get("k"), harness.Get("old")};
  harness.Turns(3);
  return waiters;
}

void ExpectArenaFree(ShardHarness& harness) {
  for (std::size_t i = 0; i < memgest::DeltaArena::kSegmentCount; ++i) {
    EXPECT_NE(harness.arena().Take(memgest::DeltaArena::kSegmentSize).memory, nullptr) << i;
  }
}

TEST(Retire, V7NobodyIsAnsweredAfterwards) {
  ShardHarness harness;
  harness.BeginEpoch();  // who served before one answers gets though its log is held
  harness.Normal();
  harness.Run(harness.Put(kRep3, "other", "v"));
  MakeWaiters(harness);
  harness.shard().Retire();
  const std::vector<int> told = harness.order();
  harness.Put(kRep1, "late", "v");
  harness.Get("other");
  harness.holds_reads = false;
  harness.Turns(20);
  EXPECT_EQ(harness.order(), told);
  EXPECT_TRUE(harness.shard().gone());
  EXPECT_FALSE(harness.shard().Busy());
  ExpectArenaFree(harness);
}

TEST(Retire, X5WhoWaitsIsToldThatItIsUnknown) {
  ShardHarness harness;
  const Waiters waiters = MakeWaiters(harness);
  harness.shard().Retire();
  for (const int number : waiters.writes) {
    EXPECT_EQ(harness.answer(number).count, 1) << number;
    EXPECT_EQ(harness.outcome(number), Outcome::kUnknown) << number;
  }
  for (const int number : waiters.reads) {
    EXPECT_EQ(harness.answer(number).count, 1) << number;
    EXPECT_EQ(harness.outcome(number), Outcome::kUnavailable) << number;
  }
  harness.holds_reads = false;
  harness.Turns(20);
  for (const int number : waiters.writes) EXPECT_EQ(harness.answer(number).count, 1);
  EXPECT_TRUE(harness.shard().gone());
  ExpectArenaFree(harness);
}

TEST(Retire, V6WhatIsBeingSentOrReadStaysUntilItIsDone) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", Bytes(9000, 1)));
  harness.Settle();
  harness.holds_sends = true;
  harness.holds_reads = true;
  harness.Run(harness.Get("k"));
  harness.Put(kRep3, "large", Bytes(300'000, 2), {.large = true});
  harness.Turns(2);
  ASSERT_GT(harness.reads(), 0u);
  const std::size_t before = harness.device().freed;
  harness.shard().Retire();
  EXPECT_FALSE(harness.shard().gone());
  EXPECT_EQ(harness.device().freed, before);
  while (harness.reads() > 0) harness.FinishRead(true);
  EXPECT_FALSE(harness.shard().gone());
  harness.FinishSends();  // compares every byte
  EXPECT_TRUE(harness.shard().gone());
  EXPECT_GT(harness.device().freed, before);
  EXPECT_EQ(harness.shard().lines().granule_count(), 0u);
  EXPECT_EQ(harness.shard().keys().size(), 0u);
}

}  // namespace
}  // namespace ring::coordinator
