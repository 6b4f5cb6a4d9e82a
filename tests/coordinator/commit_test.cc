// What becomes visible and when: V1, V3, G6, E9, L6 as far as it is the log's.
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

TEST(Commit, V1VersionsRiseOverAllKeysAndMemgests) {
  ShardHarness harness;
  Version last;
  for (int i = 0; i < 50; ++i) {
    const std::string key = "k" + std::to_string(i % 3);
    const int number = i % 5 == 4
                           ? harness.Delete(key)
                           : harness.Put(MemgestId(static_cast<std::uint16_t>(i % 7)), key, "v");
    const Answered& answer = harness.Run(number);
    if (answer.outcome != Outcome::kOk) continue;
    EXPECT_GT(answer.version, last) << i;
    EXPECT_EQ(answer.version.epoch(), Epoch(5));
    last = answer.version;
  }
}

// V3: order is by version. A lower version that commits later changes nothing visible.
TEST(Commit, V3ALowerVersionThatCommitsLaterStaysInvisible) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int lower = harness.Put(kSrs32, "k", "lower");
  const int higher = harness.Put(kRep1, "k", "higher");
  harness.Turns(5);
  ASSERT_TRUE(harness.answered(higher));
  harness.Settle();
  ASSERT_TRUE(harness.answered(lower));
  EXPECT_LT(harness.answer(lower).version, harness.answer(higher).version);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "higher");
  harness.Settle();
  harness.Scrub();  // and the counts of keys and bytes are the higher one's
}

// G6: what Rep(1) may lose. Its versions are in no member: without them the strong version below is
// the newest.
TEST(Commit, G6Rep1LeavesTheStrongVersionBelowForTheDayItVanishes) {
  ShardHarness harness;
  const Version strong = harness.Run(harness.Put(kRep3, "k", "strong")).version;
  harness.Settle();
  harness.Run(harness.Put(kRep1, "k", "weak"));
  // A tombstone must outlive the strong version (G4): not in Rep(1).
  harness.Run(harness.Delete("k"));
  harness.Run(harness.Put(kRep1, "k", "weak again"));
  harness.Settle();
  for (MemberTwin* member : harness.members()) {
    for (std::uint32_t line = 0; line < member->shard().lines().granule_count() * 64; ++line) {
      if (!member->shard().lines().Has(line)) continue;
      EXPECT_NE(member->shard().lines().line(line).version, strong.bits()) << "resurrects";
    }
  }
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "weak again");
}

TEST(Commit, G6AStrongVersionBelowRep1StaysAtItsMembers) {
  ShardHarness harness;
  const Version strong = harness.Run(harness.Put(kRep3, "k", "strong")).version;
  const std::uint32_t line = harness.HeadLine("k");
  harness.Run(harness.Put(kRep1, "k", "weak"));
  harness.Settle();
  EXPECT_EQ(harness.member(3).shard().lines().line(line).version, strong.bits());
  EXPECT_EQ(harness.member(4).shard().lines().line(line).version, strong.bits());
}

// The commit rule of each memgest, ack by ack.
TEST(Commit, CountsTheAcknowledgementsThatTheMemgestAsksFor) {
  const struct {
    MemgestId memgest;
    std::vector<int> roles;  // in the order in which they acknowledge
    std::size_t needed;
    bool all = false;
  } kRules[] = {{kRep1, {}, 0},        {kRep2, {3}, 1},          {kRep3, {4, 3}, 1},
                {kRep4, {1, 4, 3}, 2}, {kSrs21, {3}, 1},         {kSrs31, {3}, 1},
                {kSrs32, {4, 3}, 2},   {kRep3, {4, 3}, 2, true}, {kRep4, {1, 4, 3}, 3, true}};
  for (const auto& rule : kRules) {
    HarnessOptions options;
    if (rule.all) options.commit_all = {rule.memgest.value()};
    ShardHarness harness(options);
    harness.SetFlow(true, false);
    const int put = harness.Put(rule.memgest, "k", "v");
    harness.Turn();
    for (std::size_t acks = 0; acks < rule.roles.size(); ++acks) {
      EXPECT_EQ(harness.answered(put), acks >= rule.needed)
          << "memgest " << rule.memgest.value() << " acks " << acks;
      harness.member(rule.roles[acks]).Ack();
      harness.Turn();
    }
    EXPECT_TRUE(harness.answered(put));
    harness.Settle();
    harness.Scrub();
  }
}

// E9, S1: nobody folds what is not committed, whatever has arrived.
TEST(Commit, E9MembersFoldOnlyWhatIsCommitted) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "committed"));
  harness.Settle();
  MemberTwin& fast = harness.member(3);
  const std::uint64_t applied = fast.shard().applied(kSrs32);
  harness.member(4).acks = false;  // the entry needs both parities
  const int put = harness.Put(kSrs32, "k", "not yet");
  harness.Turns(20);
  EXPECT_FALSE(harness.answered(put));
  EXPECT_EQ(fast.shard().applied(kSrs32), applied);
  harness.Settle();
  EXPECT_EQ(fast.shard().applied(kSrs32), harness.shard().FindMemgest(kSrs32)->next_index() - 1);
  harness.Scrub();
}

// A full send queue keeps what is staged; it goes out later without another entry.
TEST(Commit, WhatAFullQueueRefusedGoesOutWithTheNextFlush) {
  ShardHarness harness;
  harness.member(3).qp.refuse = absl::StatusCode::kResourceExhausted;
  const int put = harness.Put(kRep2, "k", "v");
  harness.Turns(5);
  EXPECT_FALSE(harness.answered(put));
  harness.member(3).qp.refuse = absl::StatusCode::kOk;
  harness.Settle();
  EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  harness.Scrub();
}

// X5: with a broken link nobody is told anything: the outcome is unknown, not "failed".
TEST(Commit, X5ABrokenLinkGivesNoAnswer) {
  ShardHarness harness;
  harness.member(3).qp.Fail();
  const int put = harness.Put(kSrs21, "k", "v");
  const int get = harness.Get("k");
  const int other = harness.Put(kRep1, "other", "v");
  harness.Turns(50);
  EXPECT_FALSE(harness.answered(put));
  EXPECT_FALSE(harness.answered(get));
  EXPECT_EQ(harness.outcome(other), Outcome::kOk);  // Rep(1) asks no member
  EXPECT_TRUE(harness.answered(other));
}

}  // namespace
}  // namespace ring::coordinator
