// A node with empty memory takes a shard over: V3, G1, G5, G6, G8, S4, S5, X1, E1.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/base/random.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/coordinator/takeover_steps.h"
#include "tests/support/random_seed.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

constexpr MemgestId kStrong[] = {kRep2, kRep3, kRep4, kSrs21, kSrs31, kSrs32};
std::string KeyOf(MemgestId memgest) { return "k" + std::to_string(memgest.value()); }

TEST(TakeOver, AValueThatNobodyCanBringIsRefusedAndNotWaitedFor) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "key", "value"));
  TakeOverAndServe(harness);
  harness.can_bring = false;
  EXPECT_EQ(harness.Run(harness.Get("key")).outcome, Outcome::kUnavailable);
  EXPECT_EQ(harness.Run(harness.Move("key", kRep4)).outcome, Outcome::kUnavailable);
  harness.can_bring = true;
  EXPECT_EQ(RunFetching(harness, harness.Get("key")).value, "value");
}

// What is adopted may be on one survivor only: nothing of it is shown before all have it.
TEST(TakeOver, E2NothingIsReadBeforeNormal) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "key", "value"));
  harness.Settle();
  harness.TakeOver();
  const int get = harness.Get("key");
  const int none = harness.Get("none");
  harness.Turns(5);
  harness.FetchAll();
  EXPECT_FALSE(harness.answered(get) || harness.answered(none));
  harness.BeginEpoch();  // E7
  const int again = harness.Get("none");
  harness.Turns(5);
  EXPECT_FALSE(harness.answered(none) || harness.answered(again));
  harness.SetFlow(true, true);
  harness.Normal();
  EXPECT_EQ(RunFetching(harness, get).value, "value");
  EXPECT_EQ(harness.Run(none).outcome, Outcome::kNotFound);
}

// ... and what lives on has no values to fetch between two epochs.
TEST(TakeOver, E2AValueThatIsNotHereIsRefusedWhileTheEpochChanges) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "away", "value"));
  harness.Settle();
  TakeOverAndServe(harness);
  harness.Run(harness.Put(kRep3, "here", "new"));
  harness.Settle();
  harness.BeginEpoch();
  EXPECT_EQ(harness.Run(harness.Get("away")).outcome, Outcome::kUnavailable);
  EXPECT_EQ(harness.Run(harness.Get("here")).value, "new");
  EXPECT_TRUE(harness.wanted().empty());
  harness.SetFlow(true, true);
  harness.Normal();
  EXPECT_EQ(RunFetching(harness, harness.Get("away")).value, "value");
}

TEST(TakeOver, X1ValuesVersionsAndRecordsOutliveTheCoordinator) {
  ShardHarness harness({.block_size = 8192});
  std::map<std::uint16_t, int> puts;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (const MemgestId memgest : kStrong) {
    clients.push_back(std::make_unique<TestClient>(100 + memgest.value()));
    TestClient* const client = clients.back().get();
    client->Take();  // stays under way, so that all records of the client stay
    puts[memgest.value()] =
        harness.Put(memgest, KeyOf(memgest), Bytes(30'000, memgest.value()), {.client = client});
    harness.Run(puts[memgest.value()]);
    harness.Run(harness.Put(memgest, "small" + KeyOf(memgest), "v"));
  }
  harness.Run(harness.Delete("small" + KeyOf(kRep3)));
  TakeOverAndServe(harness);
  for (const MemgestId memgest : kStrong) {
    const int put = puts[memgest.value()];
    const Answered& get = RunFetching(harness, harness.Get(KeyOf(memgest)));
    EXPECT_EQ(get.value, Bytes(30'000, memgest.value())) << memgest.value();
    EXPECT_EQ(get.version, harness.answer(put).version);
    const Answered& again = harness.Run(harness.Resend(put));
    EXPECT_EQ(again.outcome, Outcome::kOk);
    EXPECT_EQ(again.version, harness.answer(put).version) << "executed twice";
  }
  EXPECT_EQ(harness.Run(harness.Get("small" + KeyOf(kRep3))).outcome, Outcome::kNotFound);
  const Version next = harness.Run(harness.Put(kRep3, "new", "v")).version;
  EXPECT_EQ(next, Version(Epoch(6), 1)) << "V1";
  harness.FetchRest();
  harness.Settle();
  harness.Scrub();
}

// F11: who lacks the tail may be the only one that has the values of another memgest.
TEST(TakeOver, F11WithoutMemoryForATailNobodyIsTakenForLost) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "old"));
  harness.Settle();
  harness.SetFlow(false, false);
  harness.member(4).lands = true;
  harness.Put(kRep3, "k", Bytes(3000, 5));
  harness.Turns(3);
  harness.no_memory_for_tails = true;
  harness.TakeOver();
}

// E1: what nobody was told of may be there, and then it is finished. The longest log counts, and
// who lacks its end gets it.
TEST(TakeOver, E1AnAdoptedTailIsFinishedForAll) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "old"));
  harness.Settle();
  harness.SetFlow(false, false);
  harness.member(4).lands = true;
  TestClient client(9);
  client.Take();
  const int put = harness.Put(kRep3, "k", Bytes(3000, 5), {.client = &client});
  const int lost = harness.Put(kRep2, "k2", "nowhere", {.client = &client});
  harness.Turns(3);
  ASSERT_FALSE(harness.answered(put));
  TakeOverAndServe(harness);
  EXPECT_EQ(RunFetching(harness, harness.Get("k")).value, Bytes(3000, 5));
  EXPECT_EQ(harness.Run(harness.Get("k2")).outcome, Outcome::kNotFound);
  EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Chain("k").size(), 2u) << "X1: executed twice";
  EXPECT_EQ(harness.Run(harness.Resend(lost)).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Run(harness.Get("k2")).value, "nowhere");
  harness.FetchRest();
  harness.Settle();
  harness.Scrub();
}

// Lines show what was adopted before it is committed here: a snapshot would have it, and the ring
// bring it again.
TEST(TakeOver, L7NobodyJoinsBeforeWhatWasAdoptedIsCommitted) {
  ShardHarness harness;
  harness.SetFlow(false, false);
  harness.member(4).lands = true;
  harness.Put(kRep3, "k", Bytes(3000, 5));
  harness.Turns(3);
  harness.TakeOver();
  harness.SetFlow(true, true);
  harness.Normal();
  EXPECT_FALSE(harness.shard().log().adopted_all());
  EXPECT_TRUE(absl::IsUnavailable(harness.shard().AddLearner(Role(3), nullptr, 1).status()));
  harness.Turn();
  EXPECT_TRUE(harness.shard().log().adopted_all());
}

// S8: a delta that only one parity has goes to the other with its own factor, whichever it was.
TEST(TakeOver, E1S8ADeltaThatOneParityLacksIsFinishedThere) {
  for (const int landed : {3, 4}) {
    ShardHarness harness({.block_size = 8192});
    harness.Run(harness.Put(kSrs32, "k", Bytes(3000, 1)));
    harness.Run(harness.Put(kSrs32, "large", Bytes(30'000, 2)));
    harness.Settle();
    harness.SetFlow(false, false);
    harness.member(landed).lands = true;
    TestClient client(9);
    client.Take();
    const int put = harness.Put(kSrs32, "k", Bytes(3000, 5), {.client = &client});
    const int other = harness.Put(kSrs32, "large", Bytes(30'000, 6), {.client = &client});
    harness.Turns(20);
    ASSERT_FALSE(harness.answered(put) || harness.answered(other));
    TakeOverAndServe(harness);
    EXPECT_EQ(RunFetching(harness, harness.Get("k")).value, Bytes(3000, 5)) << landed;
    EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
    EXPECT_EQ(harness.Chain("k").size(), 2u) << "X1: executed twice";
    harness.Run(harness.Put(kSrs32, "k", Bytes(3000, 7)));
    harness.FetchRest();
    harness.Settle();
    harness.Scrub();
  }
}

TEST(TakeOver, E2NothingIsServedBeforeNormal) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "v"));
  harness.TakeOver();
  const int get = harness.Get("k");
  const int put = harness.Put(kRep1, "other", "v");
  harness.Turns(20);
  EXPECT_FALSE(harness.answered(get) || harness.answered(put));
  harness.Normal();
  EXPECT_EQ(RunFetching(harness, get).value, "v");
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kOk);
}

TEST(TakeOver, G6AWeakVersionIsGoneAndTheStrongOneBelowIsBack) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "strong"));
  harness.Run(harness.Put(kRep1, "k", "weak"));
  harness.Run(harness.Put(kRep1, "only weak", "v"));
  TakeOverAndServe(harness);
  EXPECT_EQ(RunFetching(harness, harness.Get("k")).value, "strong");
  EXPECT_EQ(harness.Run(harness.Get("only weak")).outcome, Outcome::kNotFound);
}

// G1, G5: what the old coordinator had not collected yet goes now, tombstones last.
TEST(TakeOver, G5WhatIsDominatedIsCollectedByTheNewCoordinator) {
  ShardHarness harness;
  for (int i = 0; i < 4; ++i) harness.Run(harness.Put(kStrong[i], "k", Bytes(100, 1)));
  for (int i = 2; i < 6; ++i) harness.Run(harness.Put(kStrong[i], "gone", Bytes(100, 2)));
  harness.Run(harness.Delete("gone"));
  TakeOverAndServe(harness);
  ASSERT_GT(harness.Chain("gone").size(), 1u) << "nothing is left for the test";
  harness.Settle();
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  EXPECT_EQ(harness.HeadLine("gone"), memgest::kNoLine);
  harness.FetchRest();
  harness.Settle();
  harness.Scrub();
}

TEST(TakeOver, S5AValueThatCameTooLateIsNobodys) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "old"));
  TakeOverAndServe(harness);
  const int get = harness.Get("k");
  const int another = harness.Get("k");
  harness.Turns(3);
  ASSERT_EQ(harness.wanted().size(), 1u) << "asked for once";
  const ShardHarness::Wanted wanted = harness.wanted().front();
  EXPECT_FALSE(harness.answered(get));
  EXPECT_EQ(harness.Run(harness.Put(kSrs32, "k", "new")).outcome, Outcome::kOk);
  harness.Turns(50);
  EXPECT_EQ(harness.shard().lines().line(wanted.line).version, wanted.version.bits())
      << "V6: the slot is written";
  harness.FetchAll();
  EXPECT_EQ(harness.Run(get).value, "new");
  EXPECT_EQ(harness.Run(another).value, "new");
  harness.Settle();
  EXPECT_NE(harness.shard().lines().line(wanted.line).version, wanted.version.bits());
  harness.shard().OnValue(wanted.line, wanted.version, true);
  harness.FetchRest();
  harness.Settle();
  harness.Scrub();
}

// G8, G6: a value that is lost is an error, for gets and for moves, and never an older version.
TEST(TakeOver, G8AMoveWaitsForItsSourceAndALostOneIsAnError) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", Bytes(500, 1)));
  harness.Run(harness.Put(kSrs32, "lost", Bytes(500, 2)));
  TakeOverAndServe(harness);
  const int move = harness.Move("k", kRep3);
  harness.Turns(3);
  EXPECT_FALSE(harness.answered(move));
  harness.FetchAll();
  EXPECT_EQ(harness.Run(move).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, Bytes(500, 1));
  const int get = harness.Get("lost");
  const int lost = harness.Move("lost", kRep3);
  harness.Turns(3);
  harness.FetchAll(false);
  EXPECT_EQ(harness.Run(get).outcome, Outcome::kDataLost);
  EXPECT_EQ(harness.Run(lost).outcome, Outcome::kDataLost);
  EXPECT_EQ(harness.Run(harness.Get("lost")).outcome, Outcome::kDataLost);
  EXPECT_EQ(harness.Run(harness.Put(kRep3, "lost", "again")).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Run(harness.Get("lost")).value, "again");
}

// S12: what was brought is the version's, or it is not there.
TEST(TakeOver, S12BytesThatAreNotTheVersionsAreNotServed) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", Bytes(500, 1)));
  harness.Settle();
  harness.TakeOver();
  harness.SetFlow(true, true);
  harness.Normal();
  const int get = harness.Get("k");
  harness.Turns(3);
  ASSERT_EQ(harness.wanted().size(), 1u);
  harness.shard().OnValue(harness.wanted()[0].line, harness.wanted()[0].version, true);
  EXPECT_EQ(harness.Run(get).outcome, Outcome::kDataLost);
}

// S4: the old bytes of a Lost block are not known here, so nothing is written there.
TEST(TakeOver, S4PutsAfterATakeoverLeaveParitiesRight) {
  ShardHarness harness({.block_size = 8192});
  for (int i = 0; i < 40; ++i) {
    const std::string key = "k" + std::to_string(i % 20);
    harness.Run(harness.Put(kSrs32, key, Bytes(900, static_cast<std::uint64_t>(i))));
  }
  harness.Settle();
  const std::uint32_t blocks = harness.shard().FindMemgest(kSrs32)->allocator().block_count();
  TakeOverAndServe(harness);
  for (int i = 0; i < 30; ++i) {
    harness.Run(harness.Put(kSrs32, "k" + std::to_string(i), Bytes(900, 7)));
  }
  EXPECT_GT(harness.shard().FindMemgest(kSrs32)->allocator().block_count(), blocks);
  harness.Settle();
  harness.FetchRest();
  harness.Settle();
  harness.Scrub();
}

// Sequential writes, each acknowledged; coordinators that die at any time, one after the other:
// nothing strong is lost, nothing weak below it comes back wrong.
TEST(TakeOver, I2RandomWritesOutliveEveryCoordinator) {
  SeededRandom random(ring::testing::SeedFor("takeovers"));
  for (int round = 0; round < 6; ++round) {
    ShardHarness harness({.block_size = 8192});
    std::map<std::string, std::optional<std::string>> strong;  // newest acknowledged, f >= 1
    std::map<std::string, std::optional<std::string>> seen;    // ... of any memgest
    for (int step = 0; step < 300; ++step) {
      const std::string key = "k" + std::to_string(random.Next64() % 10);
      const MemgestId memgest(static_cast<std::uint16_t>(random.Next64() % kMemgestCount));
      const std::uint64_t dice = random.Next64() % 100;
      if (dice < 50) {
        const std::string value = Bytes(1 + random.Next64() % 20000, random.Next64());
        ASSERT_EQ(harness.Run(harness.Put(memgest, key, value)).outcome, Outcome::kOk);
        seen[key] = value;
        if (memgest != kRep1) strong[key] = value;
      } else if (dice < 60) {
        const Outcome outcome = RunFetching(harness, harness.Delete(key)).outcome;
        // G4: a tombstone outlives what it hides, but no more.
        if (outcome == Outcome::kOk && strong[key].has_value()) strong[key].reset();
        seen[key].reset();
      } else if (dice < 80) {
        const Answered& get = RunFetching(harness, harness.Get(key));
        ASSERT_EQ(get.outcome == Outcome::kOk, seen[key].has_value()) << key << " step=" << step;
        if (seen[key].has_value()) {
          ASSERT_TRUE(get.value == *seen[key]) << key;
        }
      } else if (dice < 95) {
        const bool fast = random.Next64() % 2 == 0;
        harness.member(3).folds = fast;
        harness.member(4).folds = random.Next64() % 2 == 0;
        harness.Turns(static_cast<int>(random.Next64() % 20));
      } else {
        ASSERT_NO_FATAL_FAILURE(TakeOverAndServe(harness));
        seen = strong;
        if (random.Next64() % 2 == 0) harness.FetchRest();
      }
    }
    for (MemberTwin* const member : harness.members()) member->folds = true;
    harness.Turns(5);
    harness.FetchRest();
    harness.Settle();
    harness.Scrub();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace ring::coordinator
