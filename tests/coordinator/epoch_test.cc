// The epoch change at a coordinator that lives on, with members that died, lag or stay: steps 5
// and 6; V1, G2, L6, S13, X2.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "ring/base/random.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/support/random_seed.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

constexpr MemgestId kStrong[] = {kRep2, kRep3, kRep4, kSrs21, kSrs31, kSrs32};

// Whatever a member lacked, each kind of entry comes back as it was appended: members end as
// copies.
TEST(Epoch, WhatMembersLackIsSentAgainAndNothingTwice) {
  for (const bool lands : {false, true}) {
    for (const bool acks : {false, true}) {
      SCOPED_TRACE(lands ? acks ? "landed, acknowledged" : "landed" : "lost");
      if (acks && !lands) continue;
      ShardHarness harness({.block_size = 16 * 1024});
      for (const MemgestId memgest : kStrong) {
        harness.Run(harness.Put(memgest, "old" + std::to_string(memgest.value()), "x"));
        harness.Run(
            harness.Put(memgest, "moved" + std::to_string(memgest.value()), Bytes(9000, 7)));
      }
      harness.Settle();
      for (MemberTwin* const member : harness.members()) member->folds = false;
      harness.SetFlow(lands, false);
      harness.member(3).acks = acks;
      std::vector<int> numbers;
      for (const MemgestId memgest : kStrong) {
        const std::string id = std::to_string(memgest.value());
        numbers.push_back(harness.Put(memgest, "k" + id, Bytes(3000, memgest.value())));
        numbers.push_back(
            harness.Put(memgest, "large" + id, Bytes(100'000, memgest.value()), {.large = true}));
        numbers.push_back(harness.Delete("old" + id));
        numbers.push_back(harness.Move("moved" + id, memgest == kRep3 ? kSrs32 : kRep3));
        harness.Turns(3);
      }
      harness.Turns(20);
      harness.BeginEpoch();
      harness.Normal();
      harness.SetFlow(true, true);
      harness.Settle();
      for (const int number : numbers) EXPECT_EQ(harness.outcome(number), Outcome::kOk) << number;
      harness.Scrub();
    }
  }
}

// Step 6: nothing is committed, answered, folded or told before Normal; then all of it is.
TEST(Epoch, E2NothingIsAnsweredOrToldBeforeNormal) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "old"));
  harness.Settle();
  harness.SetFlow(false, false);
  const int put = harness.Put(kSrs32, "k", "new");
  harness.Turns(3);
  harness.BeginEpoch();
  harness.SetFlow(true, true);
  const int get = harness.Get("k");
  const int late = harness.Put(kRep1, "other", "v");
  const std::uint64_t front = harness.shard().log().commit_front();
  harness.Turns(50);
  EXPECT_FALSE(harness.answered(put) || harness.answered(get) || harness.answered(late));
  EXPECT_EQ(harness.shard().log().commit_front(), front);
  for (MemberTwin* const member : harness.members()) {
    EXPECT_EQ(member->writer()->shared_position(), 0u);
  }
  harness.Normal();
  EXPECT_EQ(harness.Run(get).value, "new");
  EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  EXPECT_EQ(harness.Run(late).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// A node sleeps meanwhile, however many requests wait.
TEST(Epoch, WhatWaitsForNormalIsNoWork) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "old"));
  harness.Settle();
  harness.BeginEpoch();
  const int put = harness.Put(kRep3, "k", "new");
  harness.Turns(5);
  EXPECT_FALSE(harness.answered(put));
  EXPECT_FALSE(harness.shard().HasWork());
  harness.Normal();
  EXPECT_TRUE(harness.shard().HasWork());
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kOk);
}

// Told to go on without what was lost it begins the epoch once more in which it stopped.
TEST(Epoch, E8AShardThatStoppedGoesOnInItsEpoch) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "old"));
  harness.Settle();
  harness.shard().BeginEpoch(Epoch(harness.epoch().value() + 1));
  harness.BeginEpoch();
  harness.Normal();
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "old");
  EXPECT_EQ(harness.Run(harness.Put(kRep3, "k", "new")).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// What was committed before stays so: it is read all the time. What was not is waited for (V4).
TEST(Epoch, E2ReadsOfWhatWasCommittedGoOn) {
  ShardHarness harness;
  for (const MemgestId memgest : kStrong)
    harness.Run(harness.Put(memgest, "k" + std::to_string(memgest.value()), "old"));
  harness.Run(harness.Delete("k" + std::to_string(kRep4.value())));
  harness.Settle();
  harness.SetFlow(false, false);
  const int put = harness.Put(kSrs32, "k" + std::to_string(kSrs32.value()), "new");
  harness.Turns(3);
  harness.BeginEpoch({3});
  for (const MemgestId memgest : {kRep2, kRep3, kSrs21, kSrs31}) {
    const Answered& got = harness.Run(harness.Get("k" + std::to_string(memgest.value())));
    EXPECT_EQ(got.outcome, Outcome::kOk);
    EXPECT_EQ(got.value, "old");
  }
  EXPECT_EQ(harness.Run(harness.Get("k" + std::to_string(kRep4.value()))).outcome,
            Outcome::kNotFound);
  EXPECT_EQ(harness.Run(harness.Get("never put")).outcome, Outcome::kNotFound);
  const int get = harness.Get("k" + std::to_string(kSrs32.value()));
  harness.Turns(5);
  EXPECT_FALSE(harness.answered(get) || harness.answered(put));
  harness.BeginEpoch({3});  // E7
  EXPECT_EQ(harness.Run(harness.Get("k" + std::to_string(kRep3.value()))).value, "old");
  EXPECT_FALSE(harness.answered(get) || harness.answered(put));
  harness.SetFlow(true, true);
  harness.Normal();
  EXPECT_EQ(harness.Run(get).value, "new");
  EXPECT_EQ(harness.outcome(put), Outcome::kOk);
}

TEST(Epoch, V1VersionsOfANewEpochCountFromOneAndAreHigher) {
  ShardHarness harness;
  Version last;
  for (int i = 0; i < 5; ++i) last = harness.Run(harness.Put(kRep3, "k", "v")).version;
  harness.BeginEpoch();
  harness.Normal();
  const Version first = harness.Run(harness.Put(kRep3, "k", "v")).version;
  EXPECT_EQ(first, Version(Epoch(6), 1));
  EXPECT_GT(first, last);
  EXPECT_EQ(harness.Run(harness.Put(kRep1, "other", "v")).version, Version(Epoch(6), 2));
  harness.Settle();
  harness.Scrub();
}

// V1: a version is never assigned twice, not even when there are no more.
TEST(Epoch, V1WithoutVersionsWritesAreRefusedUntilTheNextEpoch) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "old", "v"));
  harness.shard().SkipVersions(Version::kCounterMax - 1);
  const int large = harness.Put(kSrs32, "large", Bytes(300'000, 1), {.large = true});
  const int last = harness.Put(kRep3, "k", "v");
  EXPECT_EQ(harness.Run(last).version, Version(Epoch(5), Version::kCounterMax));
  const int put = harness.Put(kRep3, "k", "w");
  const int removed = harness.Delete("old");
  const int move = harness.Move("old", kSrs32);
  for (const int number : {put, removed, move})
    EXPECT_EQ(harness.Run(number).outcome, Outcome::kUnavailable);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "v");
  EXPECT_EQ(harness.Run(harness.Resend(last)).version, harness.answer(last).version);  // X1
  harness.Turns(50);
  EXPECT_FALSE(harness.answered(large)) << "it has had its PARTs, and gets no version";
  harness.BeginEpoch();
  harness.Normal();
  EXPECT_EQ(harness.Run(large).outcome, Outcome::kOk);
  for (const int number : {put, removed})
    EXPECT_EQ(harness.Run(harness.Resend(number)).outcome, Outcome::kOk);
  EXPECT_GT(harness.answer(large).version, harness.answer(last).version);
  harness.Settle();
  harness.Scrub();
}

TEST(Epoch, V1VersionsRunOutWhenHalfOfThemAreAssigned) {
  ShardHarness harness;
  harness.shard().SkipVersions(ShardCoordinator::kVersionsAsk - 1);
  EXPECT_FALSE(harness.shard().versions_run_out());
  harness.Run(harness.Put(kRep3, "k", "v"));
  EXPECT_TRUE(harness.shard().versions_run_out());
  harness.BeginEpoch();
  harness.Normal();
  EXPECT_FALSE(harness.shard().versions_run_out());
}

// E7: a further failure before Normal begins again from the same logs.
TEST(Epoch, E7AnAbandonedEpochLeavesWhatWasAppendedForTheNext) {
  ShardHarness harness;
  harness.SetFlow(false, false);
  const int put = harness.Put(kSrs32, "k", Bytes(5000, 1));
  harness.Turns(2);
  harness.BeginEpoch();
  harness.Turn();
  harness.member(3).lands = true;  // half of it arrives in the abandoned epoch
  harness.member(3).acks = true;
  harness.Turns(3);
  EXPECT_TRUE(harness.shard().log().CaughtUp(Role(3)));
  harness.BeginEpoch();
  EXPECT_FALSE(harness.shard().log().CaughtUp(Role(3))) << "L6: of an epoch that is over";
  harness.Normal();
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// Rep(3) goes on with one other; SRS(3,2) with one parity (S13); SRS(2,1) and Rep(2) have nobody.
TEST(Epoch, S13ADegradedEpochServesWhoHasEnough) {
  ShardHarness harness;
  for (const MemgestId memgest : kStrong) {
    harness.Run(harness.Put(memgest, "k" + std::to_string(memgest.value()), "old"));
  }
  harness.Settle();
  harness.BeginEpoch({3});
  harness.Normal();
  harness.SetFlow(true, true);
  for (const MemgestId memgest : {kRep1, kRep3, kRep4, kSrs32}) {
    EXPECT_EQ(harness.Run(harness.Put(memgest, "new", Bytes(500, 1))).outcome, Outcome::kOk);
  }
  for (const MemgestId memgest : {kRep2, kSrs21, kSrs31}) {
    const Answered& answer = harness.Run(harness.Put(memgest, "new", "v"));
    EXPECT_EQ(answer.outcome, Outcome::kUnavailable);
    EXPECT_EQ(answer.memgest, memgest);
    EXPECT_EQ(harness.Run(harness.Get("k" + std::to_string(memgest.value()))).value, "old");
  }
  // What was collected there waits for better days: nothing comes to rest.
  harness.Turns(100);
  EXPECT_EQ(harness.Run(harness.Get("new")).value, Bytes(500, 1));
}

TEST(Epoch, S13WhoWaitsForAnAdoptedEntryOfTooFewIsToldUnknown) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int alone = harness.Put(kSrs21, "alone", "v");    // role 3 is all it has
  const int enough = harness.Put(kSrs32, "enough", "v");  // role 4 is left
  harness.Turn();
  harness.BeginEpoch({3});
  harness.SetFlow(true, true);
  harness.Normal();
  EXPECT_EQ(harness.Run(alone).outcome, Outcome::kUnknown);
  EXPECT_EQ(harness.Run(enough).outcome, Outcome::kOk);
  // It is committed: a retry finds the record (X1), a get the value.
  EXPECT_EQ(harness.Run(harness.Resend(alone)).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Run(harness.Get("alone")).value, "v");
}

// The client whose READ is under way notices nothing.
// F11: what waits for an epoch's Normal is in nobody's way, and is sent as it was in the end.
TEST(Epoch, F11AHeldLogLeavesTheArenaToOthers) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  std::vector<int> puts;
  for (unsigned i = 0; i < 20; ++i)
    puts.push_back(harness.Put(kSrs32, "k" + std::to_string(i), Bytes(60000, i)));
  harness.Turn();
  ASSERT_EQ(harness.arena().Take(memgest::DeltaArena::kSegmentSize).memory, nullptr);
  harness.BeginEpoch();
  std::vector<memgest::DeltaArena::Piece> all;
  for (std::size_t i = 0; i < memgest::DeltaArena::kSegmentCount; ++i) {
    all.push_back(harness.arena().Take(memgest::DeltaArena::kSegmentSize));
    ASSERT_NE(all.back().memory, nullptr) << "segment=" << i;
    std::memset(all.back().memory, 0xdb, memgest::DeltaArena::kSegmentSize);
  }
  for (const memgest::DeltaArena::Piece& piece : all) harness.arena().GiveBack(piece.segment);
  harness.SetFlow(true, true);
  harness.Normal();
  harness.Settle();
  for (std::size_t i = 0; i < puts.size(); ++i)
    EXPECT_EQ(harness.outcome(puts[i]), Outcome::kOk) << i;
  harness.Scrub();
}

TEST(Epoch, ALargeWriteGoesOnAcrossTheChange) {
  for (const MemgestId memgest : {kRep3, kSrs32}) {
    ShardHarness harness;
    const std::string value = Bytes(1'000'000, 3);
    const int put = harness.Put(memgest, "k", value, {.large = true});
    harness.Turns(5);
    harness.holds_reads = true;
    harness.Turns(2);
    harness.BeginEpoch();
    harness.Turns(5);
    EXPECT_FALSE(harness.answered(put));
    harness.holds_reads = false;
    harness.Turns(5);
    harness.Normal();
    harness.SetFlow(true, true);
    EXPECT_EQ(harness.Run(put).outcome, Outcome::kOk);
    EXPECT_EQ(harness.Run(harness.Get("k")).value, value);
    harness.Settle();
    harness.Scrub();
  }
}

// G2: a slot that somebody lacks the end of is not used again, whatever the epoch.
TEST(Epoch, G2SlotsOfWhatIsSentAgainAreNotReused) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "a", Bytes(1000, 1)));
  harness.Settle();
  harness.SetFlow(true, true);
  MemberTwin& slow = harness.member(4);
  slow.lands = slow.acks = false;
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(harness.Run(harness.Put(kRep3, "a", Bytes(1000, i))).outcome, Outcome::kOk);
  }
  harness.Turns(50);
  harness.BeginEpoch();
  harness.Normal();
  harness.SetFlow(true, true);
  harness.Settle();
  harness.Scrub();  // the slow member's copies are those of their versions
}

// Random writes; members that lose what is under way, lag and come back, epochs that are abandoned.
TEST(Epoch, RandomChangesLeaveCopiesThatAgree) {
  SeededRandom random(ring::testing::SeedFor("epochs"));
  for (int round = 0; round < 20; ++round) {
    ShardHarness harness({.block_size = 8192});
    std::vector<int> sent;
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t dice = random.Next64() % 100;
      const std::string key = "k" + std::to_string(random.Next64() % 12);
      const MemgestId memgest(static_cast<std::uint16_t>(random.Next64() % kMemgestCount));
      if (dice < 45) {
        const bool large = random.Next64() % 8 == 0;
        const std::size_t size = 1 + random.Next64() % (large ? 40000 : 2000);
        sent.push_back(harness.Put(memgest, key, Bytes(size, random.Next64()), {.large = large}));
      } else if (dice < 55) {
        sent.push_back(harness.Delete(key));
      } else if (dice < 65) {
        sent.push_back(harness.Move(key, memgest));
      } else if (dice < 90) {
        for (MemberTwin* const member : harness.members()) {
          member->lands = random.Next64() % 4 != 0;
          member->acks = random.Next64() % 3 != 0;
          member->folds = random.Next64() % 2 != 0;
        }
        harness.Turns(1 + static_cast<int>(random.Next64() % 4));
      } else if (dice < 94) {
        const bool begun = harness.shard().log().held();
        if (!begun || dice < 92) harness.BeginEpoch();
        harness.Turns(static_cast<int>(random.Next64() % 3));
      } else if (harness.shard().log().held()) {
        ASSERT_NO_FATAL_FAILURE(harness.Normal());
      }
    }
    if (harness.shard().log().held()) harness.Normal();
    harness.Settle();
    for (const int number : sent) ASSERT_TRUE(harness.answered(number)) << "round=" << round;
    harness.Scrub();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ring::coordinator
