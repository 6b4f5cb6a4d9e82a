// Emptying a memgest that is to be deleted: G10, with G5 and X2.
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::MemgestState;
using protocol::Outcome;

std::uint64_t Left(const DrainCounts& counts) {
  return counts.keys + counts.versions + counts.records + counts.pending;
}

// As the leader does: asks again and again until nothing is left.
void DrainAll(ShardHarness& harness, MemgestId memgest, const memgest::ClientId* dropper = nullptr,
              MemgestId records_to = kRep3) {
  harness.shard().SetMemgestState(memgest, MemgestState::kDraining);
  for (int i = 0; i < 50; ++i) {
    if (Left(harness.shard().Drain(memgest, records_to, dropper)) == 0) return;
    harness.Settle();
  }
  FAIL() << "does not get empty";
}

// More records than one step moves. They are in the default memgest's log, at all of its members,
// and a retry after the memgest is gone finds them.
TEST(Drain, G10RecordsAreLoggedAgainAndOutliveTheMemgest) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();  // stays under way, so that all records of the client stay
  std::vector<int> puts;
  std::vector<Version> versions;
  for (int i = 0; i < 300; ++i) {
    puts.push_back(harness.Put(kSrs21, "k" + std::to_string(i), "v", {.client = &client}));
    versions.push_back(harness.Run(puts.back()).version);
  }
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string(i);
    harness.Run(i % 2 == 0 ? harness.Move(key, kRep2) : harness.Delete(key));
  }
  harness.Settle();
  DrainAll(harness, kSrs21);
  harness.RemoveMemgest(kSrs21);
  for (const int role : {3, 4}) {
    std::uint64_t count = 0;
    harness.member(role).shard().completions().ForEach(
        [&](const memgest::ClientId& id, std::uint64_t, const memgest::CompletionRecord& record) {
          count += id == client.id() && record.memgest == kRep3.value() ? 1 : 0;
        });
    EXPECT_EQ(count, 300u) << "role " << role;
  }
  for (std::size_t i = 0; i < puts.size(); ++i) {
    const Answered& again = harness.Run(harness.Resend(puts[i]));
    ASSERT_EQ(again.outcome, Outcome::kOk) << i;
    ASSERT_EQ(again.version, versions[i]) << i;
    ASSERT_EQ(harness.Chain("k" + std::to_string(i)).size(), i % 2 == 0 ? 1u : 0u) << i;
  }
  harness.Settle();
  harness.Scrub();
}

// What was asked for does not change when its record goes into another log.
TEST(Drain, G10ARetryIsToldWhereItsVersionWasMade) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  const int put = harness.Put(kSrs21, "key", "v", {.client = &client});
  const Version version = harness.Run(put).version;
  const int move = harness.Move("key", kRep2, {.client = &client});
  const Version moved = harness.Run(move).version;
  harness.Settle();
  DrainAll(harness, kSrs21);
  harness.RemoveMemgest(kSrs21);
  EXPECT_EQ(harness.Run(harness.Resend(put)).version, version);
  EXPECT_EQ(harness.Run(harness.Resend(put)).memgest, kSrs21) << "its record is in REP3's log";
  EXPECT_EQ(harness.Run(harness.Resend(move)).version, moved);
  EXPECT_EQ(harness.Run(harness.Resend(move)).memgest, kRep2);
}

// A record that is on its way into the default memgest's log is not there yet.
TEST(Drain, G10NothingIsEmptyBeforeItsRecordsAreCommitted) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  const int put = harness.Put(kSrs21, "k", "v", {.client = &client});
  harness.Run(put);
  harness.Run(harness.Delete("k"));
  harness.Settle();
  harness.shard().SetMemgestState(kSrs21, MemgestState::kDraining);
  harness.SetFlow(true, false);
  for (int i = 0; i < 10; ++i) {
    const DrainCounts counts = harness.shard().Drain(kSrs21, kRep3, nullptr);
    EXPECT_EQ(counts.keys + counts.versions + counts.records, 0u);
    EXPECT_GT(counts.pending, 0u);
    harness.Turn();
  }
  harness.Settle();
  EXPECT_EQ(Left(harness.shard().Drain(kSrs21, kRep3, nullptr)), 0u);
  EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
}

TEST(Drain, G10RecordsWaitForRoomInTheDefaultMemgestsLog) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  ShardHarness harness(options);
  TestClient client(7);
  client.Take();
  const int put = harness.Put(kSrs21, "k", "v", {.client = &client});
  harness.Run(put);
  harness.Run(harness.Delete("k"));
  harness.Settle();
  harness.member(4).folds = false;  // of Rep(3), not of SRS(2,1)
  int last = 0;
  do {
    last = harness.Put(kRep3, "fill", Bytes(4000, 1));
    harness.Turns(3);
  } while (harness.answered(last));
  do {  // and what is left, to the last byte that puts may take
    last = harness.Put(kRep3, "fill", "");
    harness.Turns(3);
  } while (harness.answered(last));
  harness.shard().SetMemgestState(kSrs21, MemgestState::kDraining);
  EXPECT_EQ(harness.shard().Drain(kSrs21, kRep3, nullptr).records, 1u);
  harness.Settle();
  DrainAll(harness, kSrs21);
  harness.RemoveMemgest(kSrs21);
  EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// What lives in the memgest is deleted by tombstones elsewhere; what only stood below a weaker
// version goes, and the newer one stays. No version comes back.
TEST(Drain, G10AForcedDrainDeletesWhatLivesThereAndUncoversNothing) {
  ShardHarness harness;
  for (int i = 0; i < 150; ++i) {
    const std::string number = std::to_string(i);
    harness.Run(harness.Put(kSrs32, "in" + number, "value"));
    harness.Run(harness.Put(kRep4, "above" + number, "older"));
    harness.Run(harness.Put(kSrs32, "above" + number, "value"));
    harness.Run(harness.Put(kSrs32, "below" + number, "strong"));
    harness.Run(harness.Put(kRep1, "below" + number, "weak"));
    harness.Run(harness.Put(kSrs32, "gone" + number, "value"));
    harness.Run(harness.Delete("gone" + number));
  }
  const memgest::ClientId dropper{9, 9};
  DrainAll(harness, kSrs32, &dropper);
  harness.RemoveMemgest(kSrs32);
  for (int i = 0; i < 150; ++i) {
    const std::string number = std::to_string(i);
    for (const char* const name : {"in", "above", "gone"}) {
      EXPECT_EQ(harness.Run(harness.Get(name + number)).outcome, Outcome::kNotFound) << name;
      EXPECT_TRUE(harness.Chain(name + number).empty()) << name;  // G5
    }
    EXPECT_EQ(harness.Run(harness.Get("below" + number)).value, "weak");
    EXPECT_EQ(harness.Chain("below" + number).size(), 1u);
  }
  harness.Settle();
  harness.Scrub();
}

// G4: no other memgest would keep their tombstones as long. Clients' deletes go there as well.
TEST(Drain, G10AForcedDrainOfTheStrongestMemgestTakesTheTombstonesItself) {
  HarnessOptions options;
  options.missing = {kRep3.value(), kRep4.value()};
  ShardHarness harness(options);
  for (int i = 0; i < 150; ++i) {
    const std::string number = std::to_string(i);
    harness.Run(harness.Put(kSrs32, "in" + number, "value"));
    harness.Run(harness.Put(kSrs32, "below" + number, "strong"));
    harness.Run(harness.Put(kRep1, "below" + number, "weak"));
  }
  harness.shard().SetMemgestState(kSrs32, MemgestState::kDraining);
  EXPECT_EQ(harness.Run(harness.Delete("in7")).outcome, Outcome::kOk);
  const memgest::ClientId dropper{9, 9};
  DrainAll(harness, kSrs32, &dropper, kRep2);
  harness.RemoveMemgest(kSrs32);
  for (int i = 0; i < 150; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(harness.Run(harness.Get("in" + number)).outcome, Outcome::kNotFound);
    EXPECT_TRUE(harness.Chain("in" + number).empty());
    EXPECT_EQ(harness.Run(harness.Get("below" + number)).value, "weak");
  }
  harness.Settle();
  harness.Scrub();
}

// Its coordinator has it in the new log already, and perhaps nobody else: a snapshot of the old one
// would leave it out, and whoever took over from that would run a retry again.
TEST(Drain, X7NobodyJoinsWhileAMovedRecordIsNotCommitted) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();  // its records stay
  harness.Run(harness.Put(kSrs32, "k", "v", {.client = &client}));
  harness.Run(harness.Delete("k"));
  harness.Settle();
  harness.member(3).acks = harness.member(4).acks = false;
  harness.shard().SetMemgestState(kSrs32, MemgestState::kDraining);
  EXPECT_GT(Left(harness.shard().Drain(kSrs32, kRep3, nullptr)), 0u);
  harness.Turns(3);
  EXPECT_TRUE(absl::IsUnavailable(harness.shard().AddLearner(Role(3), nullptr, 1).status()));
}

void PutMany(ShardHarness& harness, MemgestId memgest, const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    const int put = harness.Put(memgest, name + std::to_string(i), "value");
    ASSERT_EQ(harness.Run(put).outcome, Outcome::kOk) << i;
  }
}

// Memgests that come and go must not fill the table.
TEST(Drain, G10GranulesOfADeletedMemgestServeOthers) {
  HarnessOptions options;
  options.line_count_max = 16 * memgest::kLinesPerGranule;
  ShardHarness harness(options);
  const memgest::ClientId dropper{9, 9};
  for (const MemgestId memgest : {kSrs21, kSrs31, kRep3}) {
    PutMany(harness, memgest, "k", 10 * memgest::kLinesPerGranule);
    ASSERT_LE(harness.shard().lines().granules_left(), 6u);
    DrainAll(harness, memgest, &dropper, kRep2);
    harness.RemoveMemgest(memgest);
  }
  PutMany(harness, kRep2, "k", 10 * memgest::kLinesPerGranule);
  harness.Settle();
  harness.Scrub();
}

// G2: the member has the collections in its ring, before the entries that use the lines again.
TEST(Drain, G10AMemberThatLagsAndHearsOfNoDeletionFoldsWhatUsesItsLinesAgain) {
  ShardHarness harness;
  PutMany(harness, kSrs32, "old", memgest::kLinesPerGranule);
  const std::uint32_t granule = harness.HeadLine("old0") / memgest::kLinesPerGranule;
  harness.Settle();
  harness.member(3).folds = false;
  const memgest::ClientId dropper{9, 9};
  harness.shard().SetMemgestState(kSrs32, MemgestState::kDraining);
  for (int i = 0; i < 50; ++i) {
    if (Left(harness.shard().Drain(kSrs32, kRep3, &dropper)) == 0) break;
    for (int turn = 0; turn < 10; ++turn) harness.Turn(2'000'000);
  }
  ASSERT_EQ(Left(harness.shard().Drain(kSrs32, kRep3, &dropper)), 0u);
  harness.Turns(20);
  harness.shard().RemoveMemgest(kSrs32);
  PutMany(harness, kRep3, "new", 4 * memgest::kLinesPerGranule);
  const memgest::LineTable& lines = harness.shard().lines();
  EXPECT_EQ(lines.granule(granule * memgest::kLinesPerGranule).memgest, kRep3.value());
  harness.Settle();
  harness.Scrub();
  harness.RemoveMemgest(kSrs32);  // it hears of it now
  harness.Settle();
  harness.Scrub();
}

// G5: a tombstone there stays while something older has not gone, whatever stands above it.
TEST(Drain, G10AForcedDrainKeepsATombstoneAboveWhatIsLeftBelow) {
  ShardHarness harness;
  const Version oldest = harness.Run(harness.Put(kRep4, "k", "oldest")).version;
  harness.Settle();
  harness.member(1).acks = false;  // of Rep(4) alone: its collections cannot commit
  harness.Run(harness.Put(kSrs32, "k", "newer"));
  const Version tombstone = harness.Run(harness.Delete("k")).version;
  harness.Run(harness.Put(kRep1, "k", "weak"));
  harness.shard().SetMemgestState(kSrs32, MemgestState::kDraining);
  const memgest::ClientId dropper{9, 9};
  for (int i = 0; i < 30; ++i) {
    EXPECT_GT(Left(harness.shard().Drain(kSrs32, kRep3, &dropper)), 0u);
    harness.Turn(2'000'000);
    const std::vector<Version> chain = harness.Chain("k");
    ASSERT_EQ(chain.back(), oldest);
    ASSERT_EQ(chain[1], tombstone);
  }
  harness.Settle();
  DrainAll(harness, kSrs32, &dropper);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "weak");
  harness.Settle();
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
