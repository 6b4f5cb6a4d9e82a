// A member is gone and the epoch has not changed yet: who goes on, and who says so. S13, f.
#include <string>
#include <vector>

#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

void BreakRole(ShardHarness& harness, int role) {
  harness.member(role).qp.Fail();
  harness.member(role).folds = false;
}

// Far beyond what is kept for it.
TEST(Degraded, AQuorumGoesOnWithoutABrokenMember) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "before"));
  harness.Settle();
  BreakRole(harness, 3);
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "k" + std::to_string(i % 7);
    const int number = i % 10 == 9 ? harness.Delete(key) : harness.Put(kRep3, key, Bytes(100, 1));
    ASSERT_EQ(harness.Run(number).outcome, Outcome::kOk) << i;
  }
  EXPECT_TRUE(harness.member(3).writer()->abandoned());
  EXPECT_FALSE(harness.member(4).writer()->broken());
  harness.Settle();
  // Lines of versions that went are used again: the broken member does not hold them for ever.
  EXPECT_LE(harness.LiveLines(), 8u);
  EXPECT_LT(harness.shard().FindMemgest(kRep3)->allocator().used_bytes(), 64u * 1024);
}

TEST(Degraded, WhatABrokenMemberLacksIsKeptWhileThereIsRoom) {
  ShardHarness harness;
  BreakRole(harness, 3);
  for (std::uint64_t i = 0; i < memgest::ShardLog::kPendingMax - 1; ++i) {
    ASSERT_EQ(harness.Run(harness.Put(kRep3, std::to_string(i), "v")).outcome, Outcome::kOk);
  }
  harness.Turns(5);
  EXPECT_FALSE(harness.member(3).writer()->abandoned());
  ASSERT_EQ(harness.Run(harness.Put(kRep3, "one more", "v")).outcome, Outcome::kOk);
  ASSERT_EQ(harness.Run(harness.Put(kRep3, "and one", "v")).outcome, Outcome::kOk);
  EXPECT_TRUE(harness.member(3).writer()->abandoned());
}

TEST(Degraded, S13WhoNeedsTheBrokenMemberRefusesAndNamesTheMemgest) {
  ShardHarness harness;
  BreakRole(harness, 3);
  harness.Put(kRep3, "k", "v");  // by which the coordinator notices
  harness.Turns(3);
  for (const MemgestId memgest : {kRep2, kSrs21, kSrs31, kSrs32}) {
    const Answered& answer = harness.Run(harness.Put(memgest, "other", "v"));
    EXPECT_EQ(answer.outcome, Outcome::kUnavailable) << memgest.value();
    EXPECT_EQ(answer.memgest, memgest);
  }
  for (const MemgestId memgest : {kRep1, kRep3, kRep4}) {
    EXPECT_EQ(harness.Run(harness.Put(memgest, "other", "v")).outcome, Outcome::kOk);
  }
  EXPECT_EQ(harness.Run(harness.Get("other")).value, "v");
}

// Deltas that only the broken parity lacks are kept, but not at the cost of other shards.
TEST(Degraded, DeltasOfABrokenParityLeaveTheArena) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  for (int i = 0; i < 10; ++i) harness.Put(kSrs32, "k" + std::to_string(i), Bytes(60000, 1));
  harness.Turn();
  harness.member(3).qp.FailUnacknowledged();
  harness.SetFlow(true, true);
  harness.Turns(3);
  std::vector<memgest::DeltaArena::Piece> pieces;
  for (std::size_t i = 0; i < memgest::DeltaArena::kSegmentCount; ++i) {
    pieces.push_back(harness.arena().Take(memgest::DeltaArena::kSegmentSize));
    EXPECT_NE(pieces.back().memory, nullptr) << i;
  }
}

// F11: ... nor at that of takeovers, which need such pieces, too.
TEST(Degraded, F11DeltasThatAreKeptTakeFewPiecesOfMemory) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  harness.Put(kRep3, "k", "v");
  harness.Turn();
  harness.member(4).qp.FailUnacknowledged();
  harness.SetFlow(true, true);
  harness.Turns(3);
  for (std::size_t i = 0; i < memgest::DeltaArena::kAsideMax + 10; ++i)
    ASSERT_EQ(harness.Run(harness.Put(kSrs21, std::to_string(i), "v")).outcome, Outcome::kOk) << i;
  for (std::size_t i = 0; i < memgest::DeltaArena::kAsideMax - 10; ++i)
    ASSERT_TRUE(harness.arena().TakeAside(64).ok()) << i;
}

}  // namespace
}  // namespace ring::coordinator
