// Collection of old versions: G1, G2, G3, G5, V6.
#include <tuple>

#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

// G1: a version goes iff a committed higher one lies in a memgest that survives at least as much,
// or any failure at all.
TEST(Collect, G1Rep1DominatesOnlyRep1) {
  ShardHarness harness;
  const Version strong = harness.Run(harness.Put(kRep3, "k", "strong")).version;
  harness.Settle();
  harness.Run(harness.Put(kRep1, "k", "weak 1"));
  harness.Settle();
  const Version weak = harness.Run(harness.Put(kRep1, "k", "weak 2")).version;
  harness.Settle();
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{weak, strong}));
  const Version last = harness.Run(harness.Put(kSrs21, "k", "strong again")).version;
  harness.Settle();
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{last}));
  harness.Scrub();
}

TEST(Collect, G1AnExplicitMoveToRep1CollectsAllLowerVersions) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep4, "k", "value"));
  const Version moved = harness.Run(harness.Move("k", kRep1)).version;
  harness.Settle();
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{moved}));
  harness.Scrub();
}

// Whether members were told already that the version below the newest one goes: then it is gone
// with the newest, though its line stays until all of them have said that they know (G2).
bool BelowHeadIsCollected(ShardHarness& harness, const std::string& key) {
  const memgest::LineTable& lines = harness.shard().lines();
  const std::uint32_t below = lines.line(harness.HeadLine(key)).prev;
  return (lines.line(below).flags & memgest::kCollecting) != 0;
}

// Else what is older would be all that is left of the key when Rep(1) is lost meanwhile: a value
// that an acknowledged one has replaced.
TEST(Collect, G1AnExplicitMoveToRep1CollectsTheNewestLastWhenAnOlderOneIsInFlight) {
  ShardHarness harness;
  harness.member(3).acks = false;  // Rep(2)'s only replica; Rep(3) goes on with role 4
  const int slow = harness.Put(kRep2, "k", "old");
  const Version strong = harness.Run(harness.Put(kRep3, "k", "new")).version;
  const Version moved = harness.Run(harness.Move("k", kRep1)).version;
  for (int i = 0; i < 20; ++i) harness.Turn(2'000'000);
  ASSERT_FALSE(harness.answered(slow));
  ASSERT_EQ(harness.Chain("k").size(), 3u);
  EXPECT_EQ(harness.Chain("k")[1], strong);
  EXPECT_FALSE(BelowHeadIsCollected(harness, "k"));
  harness.Settle();
  EXPECT_EQ(harness.outcome(slow), Outcome::kOk);
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{moved}));
  harness.Scrub();
}

TEST(Collect, G1AnExplicitMoveToRep1CollectsTheNewestLastWhenAnOlderOneCannotGoYet) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep2, "k", "old"));
  harness.Settle();
  harness.member(3).acks = false;  // Rep(2) commits no collection now
  const Version strong = harness.Run(harness.Put(kRep3, "k", "new")).version;
  const Version moved = harness.Run(harness.Move("k", kRep1)).version;
  for (int i = 0; i < 20; ++i) harness.Turn(2'000'000);
  ASSERT_EQ(harness.Chain("k").size(), 3u);
  EXPECT_EQ(harness.Chain("k")[1], strong);
  EXPECT_FALSE(BelowHeadIsCollected(harness, "k"));
  harness.Settle();
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{moved}));
  harness.Scrub();
}

// A strong version that commits below a weak one still collects what lies below itself.
TEST(Collect, G1AStrongVersionBelowAWeakOneCollects) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "first"));
  harness.Settle();
  Version strong;
  Version weak;
  for (int i = 0; i < 5; ++i) {
    harness.SetFlow(true, false);
    const int slow = harness.Put(kRep3, "k", "strong " + std::to_string(i));
    weak = harness.Run(harness.Put(kRep1, "k", "weak " + std::to_string(i))).version;
    ASSERT_FALSE(harness.answered(slow));
    harness.Settle();
    strong = harness.answer(slow).version;
  }
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{weak, strong}));
  harness.Scrub();
}

// G2: a slot is used again only behind the committed collection, acknowledged by every member of
// its log.
class CollectOfEveryMemgest : public ::testing::TestWithParam<std::uint16_t> {};

TEST_P(CollectOfEveryMemgest, G2ASlotIsReusedOnlyBehindItsCommittedCollection) {
  const MemgestId memgest(GetParam());
  ShardHarness harness;
  harness.Run(harness.Put(memgest, "k", Bytes(500, 1)));
  const std::uint32_t first = harness.HeadLine("k");
  harness.Run(harness.Put(memgest, "k", Bytes(500, 2)));  // committed: the first one may go
  // The last member of the log takes everything in and says nothing, from now on.
  MemberTwin& slow = harness.member(memgest == kSrs21 || memgest == kSrs31 || memgest == kRep2 ? 3
                                    : memgest == kRep4                                         ? 1
                                                                                               : 4);
  slow.acks = false;
  // 150 slots of the class: more than a granule has, so a slot freed early would be given out
  // again.
  for (int i = 0; i < 150; ++i) {
    harness.Put(memgest, "other" + std::to_string(i), Bytes(500, 10u + static_cast<unsigned>(i)));
    harness.Turn(2'000'000);
    EXPECT_EQ(harness.shard().lines().Key(first), "k") << "given out again after " << i;
  }
  harness.Settle();
  EXPECT_EQ(harness.shard().lines().line(first).version, 0u);
  harness.Scrub();
}
INSTANTIATE_TEST_SUITE_P(Memgests, CollectOfEveryMemgest,
                         ::testing::Values(kRep2.value(), kRep3.value(), kRep4.value(),
                                           kSrs21.value(), kSrs31.value(), kSrs32.value()));

TEST(Collect, G2AnIdleLogGetsAnEntryOfItsOwnAfterAMillisecond) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "1"));
  harness.Run(harness.Put(kRep3, "k", "2"));  // the collection must go through SRS32's log
  memgest::Memgest& memgest = *harness.shard().FindMemgest(kSrs32);
  EXPECT_EQ(memgest.to_collect().size(), 1u);
  const std::uint64_t index = memgest.next_index();
  harness.Turn(100'000);
  EXPECT_EQ(memgest.next_index(), index);
  harness.Turn(1'000'000);
  EXPECT_EQ(memgest.next_index(), index + 1);
  harness.Settle();
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  harness.Scrub();
}

TEST(Collect, G2MoreThanAListOfCollectionsTakeMoreEntries) {
  ShardHarness harness;
  for (int i = 0; i < 50; ++i) harness.Put(kRep2, "k" + std::to_string(i), "old");
  harness.Settle();
  for (int i = 0; i < 50; ++i) harness.Put(kRep4, "k" + std::to_string(i), "new");
  harness.Settle();
  EXPECT_EQ(harness.LiveLines(), 50u);
  harness.Scrub();
}

// G3: what is not committed is never collected, even below a committed higher version.
TEST(Collect, G3AnUncommittedVersionIsNotCollected) {
  ShardHarness harness;
  harness.member(3).acks = false;  // Rep(2)'s only replica; Rep(3) goes on with role 4
  const int slow = harness.Put(kRep2, "k", "slow");
  const int fast = harness.Put(kRep3, "k", "fast");
  for (int i = 0; i < 20; ++i) harness.Turn(2'000'000);
  ASSERT_TRUE(harness.answered(fast));
  ASSERT_FALSE(harness.answered(slow));
  EXPECT_EQ(harness.Chain("k").size(), 2u);
  EXPECT_TRUE(harness.shard().FindMemgest(kRep2)->to_collect().empty());
  EXPECT_TRUE(harness.shard().FindMemgest(kRep2)->collecting().empty());
  harness.Settle();
  EXPECT_EQ(harness.outcome(slow), Outcome::kOk);
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "fast");
  harness.Settle();
  harness.Scrub();
}

// V6: the bytes of an answer that the device still reads are not given to another version.
TEST(Collect, V6APinnedSlotOutlivesItsCollection) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep1, "k", Bytes(500, 1)));
  const std::uint32_t line = harness.HeadLine("k");
  harness.holds_sends = true;
  harness.Get("k");
  for (int i = 0; i < 200; ++i) {
    harness.Put(kRep1, "k", Bytes(500, 2u + static_cast<unsigned>(i)));
    harness.Turn(2'000'000);
  }
  EXPECT_NE(harness.shard().lines().line(line).version, 0u);
  EXPECT_EQ(harness.Chain("k").size(), 1u);  // collected, but for its slot
  harness.FinishSends();                     // checks the bytes
  EXPECT_EQ(harness.shard().lines().line(line).version, 0u);
  harness.Settle();
  harness.Scrub();
}

// A version that is gone but pinned must not be taken for a link of the chain: its own lower
// neighbour goes, too.
TEST(Collect, V6TheChainForgetsAPinnedVersionThatIsGone) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs21, "k", "lowest"));
  harness.Settle();
  harness.Run(harness.Put(kRep1, "k", "middle"));  // does not dominate the one below (G1)
  harness.holds_sends = true;
  harness.Run(harness.Get("k"));  // pins the middle
  const Version highest = harness.Run(harness.Put(kRep3, "k", "highest")).version;
  harness.Turns(3);
  for (int i = 0; i < 40; ++i) harness.Turn(2'000'000);  // collects both below, the middle first
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{highest}));
  harness.FinishSends();
  for (int i = 0; i < 100; ++i) harness.Put(kSrs21, "other" + std::to_string(i), "x");
  harness.Settle();
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{highest}));
  harness.Scrub();
}

// G5: a tombstone stays while a lower version is in flight, and goes with the last of them.
TEST(Collect, G5ATombstoneStaysWhileALowerVersionIsInFlight) {
  ShardHarness harness;
  harness.member(3).acks = false;  // SRS21's parity; Rep(3) goes on with role 4
  const int slow = harness.Put(kSrs21, "k", "slow");
  const int tombstone = harness.Delete("k");
  harness.Turns(30);
  ASSERT_FALSE(harness.answered(slow));
  // The strongest home is SRS21 or one as strong, which role 3 holds up: the delete waits as well.
  EXPECT_EQ(harness.Chain("k").size(), 2u);
  harness.Settle();
  EXPECT_EQ(harness.outcome(slow), Outcome::kOk);
  EXPECT_EQ(harness.outcome(tombstone), Outcome::kOk);
  EXPECT_TRUE(harness.Chain("k").empty());
  EXPECT_EQ(harness.LiveLines(), 0u);
  harness.Scrub();
}

TEST(Collect, G5ATombstoneOutlivesTheCollectionsBelowIt) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs21, "k", "lower"));
  harness.Settle();
  harness.Run(harness.Put(kRep4, "k", "higher"));  // home of the tombstone: f = 2
  harness.member(3).acks = false;  // SRS21's collection cannot commit; Rep(4) can, by 4 and 1
  const Version tombstone = harness.Run(harness.Delete("k")).version;
  EXPECT_EQ(harness.Run(harness.Get("k")).outcome, Outcome::kNotFound);
  // Strong enough to dominate the tombstone, whose turn has not come.
  const Version again = harness.Run(harness.Put(kRep4, "k", "again")).version;
  memgest::Memgest& home = *harness.shard().FindMemgest(kRep4);
  for (int i = 0; i < 30; ++i) {
    harness.Turn(2'000'000);
    for (std::size_t j = 0; j < home.to_collect().size(); ++j) {
      EXPECT_NE(home.to_collect()[j].item.version, tombstone.bits());
    }
    for (std::size_t j = 0; j < home.collecting().size(); ++j) {
      EXPECT_NE(home.collecting()[j].collection.item.version, tombstone.bits());
    }
  }
  const std::vector<Version> chain = harness.Chain("k");
  ASSERT_GE(chain.size(), 3u);
  EXPECT_EQ(chain[1], tombstone);
  harness.Settle();
  EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{again}));
  harness.Scrub();
}

// Nothing is left below a tombstone when it commits, and what stands above it is too weak to
// dominate it (G1).
TEST(Collect, G5ATombstoneAtTheBottomGoesWhateverIsAboveIt) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "strong"));
  harness.Run(harness.Move("k", kRep1));
  harness.SetFlow(true, false);
  harness.Turn(1'000'000);
  harness.Turn(2'000'000);                  // the collection has an entry of its own
  const int removed = harness.Delete("k");  // home: where the strong version still is
  harness.Run(harness.Put(kRep1, "k", "weak"));
  harness.member(3).Ack(1);
  harness.member(4).Ack(1);
  harness.Turns(3);  // first the strong version goes, then the move above it (G1)
  ASSERT_FALSE(harness.answered(removed));
  ASSERT_EQ(harness.Chain("k").size(), 2u);
  harness.Settle();
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "weak");
  harness.Settle();
  harness.Scrub();
}

// The tombstone on its way out is passed by a new put of the same key.
TEST(Collect, G5AKeyComesBackWhileItsTombstoneGoes) {
  for (int turns = 0; turns < 12; ++turns) {
    ShardHarness harness;
    harness.Run(harness.Put(kSrs32, "k", "1"));
    harness.Run(harness.Delete("k"));
    for (int i = 0; i < turns; ++i) harness.Turn(500'000);
    const Version back = harness.Run(harness.Put(kRep1, "k", "2")).version;
    EXPECT_EQ(harness.Run(harness.Get("k")).value, "2") << turns;
    harness.Settle();
    EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{back})) << turns;
    harness.Scrub();
  }
}

}  // namespace
}  // namespace ring::coordinator
