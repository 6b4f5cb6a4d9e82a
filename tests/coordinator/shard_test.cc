// The shard as a whole: G11, E5, memory that runs out (F11).
#include <algorithm>

#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::MemgestState;
using protocol::Outcome;

// What a coordinator hears of the catalogue: nothing, until the test says so.
class TestCatalogue final : public CatalogueReader {
 public:
  std::uint64_t Ask() override {
    ++asked;
    return last;
  }
  Result Look(std::uint64_t read) const override {
    return read < last ? result : Result::kUnderWay;
  }
  void End(Result as) {
    ++last;
    result = as;
  }
  int asked = 0;
  std::uint64_t last = 1;
  Result result = Result::kUnderWay;
};

TEST(Shard, G11AnIdThatWasNeverAgreedUponIsRefused) {
  TestCatalogue catalogue;
  ShardHarness harness({.catalogue = &catalogue});
  harness.Run(harness.Put(kRep3, "k", "v"));
  for (const MemgestId unknown : {MemgestId(7), MemgestId(4000), MemgestId(0xffff)}) {
    const int put = harness.Put(unknown, "k", "x");
    const int large = harness.Put(unknown, "k", Bytes(100'000, 1), {.large = true});
    const int move = harness.Move("k", unknown);
    harness.Turns(10);
    for (const int number : {put, large, move}) EXPECT_FALSE(harness.answered(number));
    catalogue.End(CatalogueReader::Result::kApplied);
    for (const int number : {put, large, move})
      EXPECT_EQ(harness.Run(number).outcome, Outcome::kNoSuchMemgest);
  }
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "v");
  harness.Settle();
  harness.Scrub();
}

// A coordinator that lags the catalogue is told of the memgest, and then does what it was asked.
TEST(Shard, G11AnUnknownIdIsDecidedByWhatWasAgreedUpon) {
  TestCatalogue catalogue;
  ShardHarness harness({.missing = {kRep1.value()}, .catalogue = &catalogue});
  harness.Run(harness.Put(kRep3, "moved", Bytes(3000, 1)));
  const int put = harness.Put(kRep1, "put", Bytes(3000, 2));
  const int large = harness.Put(kRep1, "large", Bytes(100'000, 3), {.large = true});
  const int move = harness.Move("moved", kRep1);
  const int copy = harness.Resend(put);  // X2: has one effect with the first
  harness.Turns(10);
  EXPECT_FALSE(harness.answered(put) || harness.answered(large) || harness.answered(move));
  harness.AddMissing();
  catalogue.End(CatalogueReader::Result::kApplied);
  for (const int number : {put, large, move, copy})
    EXPECT_EQ(harness.Run(number).outcome, Outcome::kOk);
  EXPECT_EQ(harness.answer(put).version, harness.answer(copy).version);
  EXPECT_EQ(harness.Run(harness.Get("put")).value, Bytes(3000, 2));
  EXPECT_EQ(harness.Run(harness.Get("moved")).memgest, kRep1);
  EXPECT_EQ(catalogue.asked, 4);
  harness.Settle();
  harness.Scrub();
}

// X5: refused is refused, though there is such a memgest when a copy of the request comes.
TEST(Shard, G11ADelayedCopyOfAPutForNoMemgestStoresNothing) {
  TestCatalogue catalogue;
  ShardHarness harness({.missing = {kRep1.value()}, .catalogue = &catalogue});
  const int put = harness.Put(kRep1, "k", "v");
  catalogue.End(CatalogueReader::Result::kApplied);
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kNoSuchMemgest);
  const int copy = harness.Resend(put);
  harness.AddMissing();
  catalogue.End(CatalogueReader::Result::kApplied);
  EXPECT_EQ(harness.Run(copy).outcome, Outcome::kNoSuchMemgest);
  EXPECT_EQ(harness.LiveLines(), 0u);
}

// Nobody can say: the client may come again.
TEST(Shard, G11WithoutALeaderAnUnknownIdIsUnavailable) {
  TestCatalogue catalogue;
  ShardHarness harness({.missing = {kRep1.value()}, .catalogue = &catalogue});
  const int put = harness.Put(kRep1, "k", "v");
  catalogue.End(CatalogueReader::Result::kFailed);
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kUnavailable);
  harness.AddMissing();
  EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
}

TEST(Shard, G11WhoAsksForUnknownIdsTakesABoundedPlace) {
  TestCatalogue catalogue;
  ShardHarness harness({.catalogue = &catalogue});
  std::deque<TestClient> clients;
  std::vector<int> puts;
  for (unsigned i = 0; i < 3000; ++i) {
    if (i % 100 == 0) clients.emplace_back(1000 + i);
    puts.push_back(harness.Put(MemgestId(4000), "k", "v", {.client = &clients.back()}));
  }
  EXPECT_EQ(harness.outcome(puts.back()), Outcome::kUnavailable);
  EXPECT_TRUE(harness.answered(puts.back()));
  EXPECT_FALSE(harness.answered(puts.front()));
  EXPECT_EQ(harness.Run(harness.Put(kRep3, "known", "v")).outcome, Outcome::kOk);
  catalogue.End(CatalogueReader::Result::kApplied);
  harness.Settle();
  EXPECT_EQ(harness.outcome(puts.front()), Outcome::kNoSuchMemgest);
  for (const int put : puts) EXPECT_TRUE(harness.answered(put));
}

TEST(Shard, G11AMemgestThatIsKnownAsksNobody) {
  TestCatalogue catalogue;
  ShardHarness harness({.catalogue = &catalogue});
  for (std::uint16_t i = 0; i < kMemgestCount; ++i) {
    harness.Run(harness.Put(MemgestId(i), "k", "v"));
    harness.Run(harness.Move("k", kRep3));
  }
  harness.shard().SetMemgestState(kSrs21, MemgestState::kDraining);
  EXPECT_EQ(harness.Run(harness.Put(kSrs21, "k", "x")).outcome, Outcome::kMemgestNotWritable);
  EXPECT_EQ(catalogue.asked, 0);
}

// It may be ACTIVE by now: who made it may have been told so.
TEST(Shard, G11WhatIsKnownAsCreatingIsDecidedByWhatWasAgreedUpon) {
  TestCatalogue catalogue;
  ShardHarness harness({.catalogue = &catalogue});
  harness.shard().SetMemgestState(kSrs21, MemgestState::kCreating);
  const int early = harness.Put(kSrs21, "k", "x");
  harness.Turns(3);
  EXPECT_FALSE(harness.answered(early));
  catalogue.End(CatalogueReader::Result::kApplied);
  EXPECT_EQ(harness.Run(early).outcome, Outcome::kMemgestNotWritable);
  const int late = harness.Put(kSrs21, "k", "x");
  harness.shard().SetMemgestState(kSrs21, MemgestState::kActive);
  catalogue.End(CatalogueReader::Result::kApplied);
  EXPECT_EQ(harness.Run(late).outcome, Outcome::kOk);
}

TEST(Shard, G11OnlyAnActiveMemgestIsWritten) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "v"));
  harness.Run(harness.Put(kSrs21, "there", "w"));
  for (const MemgestState state : {MemgestState::kCreating, MemgestState::kDraining}) {
    harness.shard().SetMemgestState(kSrs21, state);
    EXPECT_EQ(harness.Run(harness.Put(kSrs21, "k", "x")).outcome, Outcome::kMemgestNotWritable);
    EXPECT_EQ(harness.Run(harness.Put(kSrs21, "k", Bytes(100'000, 1), {.large = true})).outcome,
              Outcome::kMemgestNotWritable);
    EXPECT_EQ(harness.Run(harness.Move("k", kSrs21)).outcome, Outcome::kMemgestNotWritable);
    EXPECT_EQ(harness.Run(harness.Get("there")).value, "w");  // G10: still served
  }
  harness.shard().SetMemgestState(kSrs21, MemgestState::kDeleted);
  EXPECT_EQ(harness.Run(harness.Put(kSrs21, "k", "x")).outcome, Outcome::kNoSuchMemgest);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "v");
}

// G10: a memgest that stops taking writes while a large value is on its way into it.
TEST(Shard, G10ALargePutThatIsOvertakenByDrainingIsRefused) {
  ShardHarness harness;
  const int put = harness.Put(kSrs21, "k", Bytes(300'000, 1), {.large = true});
  harness.Turns(2);
  harness.shard().SetMemgestState(kSrs21, MemgestState::kDraining);
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kMemgestNotWritable);
  harness.Settle();
  EXPECT_EQ(harness.shard().FindMemgest(kSrs21)->allocator().used_bytes(), 0u);
  harness.Scrub();
}

// E5: a ring full of puts still takes tombstones and collections, out of the reserve.
TEST(Shard, E5DeletesFindRoomWherePutsDoNot) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  ShardHarness harness(options);
  for (int i = 0; i < 5; ++i) harness.Put(kRep2, "old" + std::to_string(i), "v");
  harness.Settle();
  harness.SetFlow(true, true);
  harness.member(3).folds = false;  // nothing is given back
  std::vector<int> puts;
  for (unsigned i = 0; i < 60; ++i) {
    puts.push_back(harness.Put(kRep2, "k" + std::to_string(i), Bytes(8000, i)));
    harness.Turn();
  }
  ASSERT_FALSE(harness.answered(puts.back())) << "the ring is not full";
  // What the large ones left, the smallest fill: an entry as small as a tombstone finds no room.
  do {
    puts.push_back(harness.Put(kRep2, "tiny", ""));
    harness.Turn();
  } while (harness.answered(puts.back()));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(harness.Run(harness.Delete("old" + std::to_string(i))).outcome, Outcome::kOk) << i;
  }
  for (int i = 0; i < 20; ++i) harness.Turn(2'000'000);
  EXPECT_FALSE(harness.answered(puts.back()));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(harness.Chain("old" + std::to_string(i)).empty()) << "collections starve";
  }
  harness.Settle();
  for (const int put : puts) EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  harness.Scrub();
}

TEST(Shard, E5OneSlowMemberHoldsUpOnlyItsMemgests) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  ShardHarness harness(options);
  harness.member(4).folds = false;
  for (unsigned i = 0; i < 60; ++i) harness.Put(kRep3, "k" + std::to_string(i), Bytes(8000, i));
  harness.Turns(20);
  EXPECT_GT(harness.shard().stalled(), 0u);
  EXPECT_EQ(harness.Run(harness.Put(kSrs21, "other", "v")).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Run(harness.Put(kRep1, "third", "v")).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// F11: no line left. Typed, no effect; deletes go on; then there is room again.
TEST(Shard, F11WithoutLinesPutsAreRefusedAndDeletesGoOn) {
  HarnessOptions options;
  options.line_count_max = 1024;
  ShardHarness harness(options);
  std::vector<std::string> stored;
  int refused = 0;
  for (unsigned i = 0; i < 3000 && refused < 5; ++i) {
    const std::string key = "k" + std::to_string(i);
    const Answered& put = harness.Run(harness.Put(kRep3, key, Bytes(100, i)));
    if (put.outcome == Outcome::kOk) {
      stored.push_back(key);
    } else {
      ASSERT_EQ(put.outcome, Outcome::kResourceExhausted);
      EXPECT_EQ(harness.HeadLine(key), memgest::kNoLine);
      ++refused;
    }
  }
  ASSERT_EQ(refused, 5);
  EXPECT_GT(stored.size(), 800u);
  harness.Settle();
  harness.Scrub();
  for (const std::string& key : stored) {
    ASSERT_EQ(harness.Run(harness.Delete(key)).outcome, Outcome::kOk) << key;
  }
  harness.Settle();
  EXPECT_EQ(harness.LiveLines(), 0u);
  for (unsigned i = 0; i < 500; ++i) {
    const std::string key = "again" + std::to_string(i);
    ASSERT_EQ(harness.Run(harness.Put(kRep3, key, Bytes(100, i))).outcome, Outcome::kOk) << i;
  }
  harness.Settle();
  harness.Scrub();
}

// F11: no heap left. What is stored stays, and is found by large and small alike; deletes make
// room.
TEST(Shard, F11WithoutMemoryNothingIsLostAndDeletesMakeRoom) {
  HarnessOptions options;
  options.line_count_max = 1u << 14;
  options.memory_limit = std::size_t{24} << 20;
  ShardHarness harness(options);
  std::map<std::string, std::string> stored;
  int refused = 0;
  for (unsigned i = 0; i < 400 && refused < 10; ++i) {
    const std::string key = "k" + std::to_string(i);
    const std::string value = Bytes(i % 4 == 0 ? 300'000 : 8000, i);
    const MemgestId memgest = i % 2 == 0 ? kSrs32 : kRep3;
    const Answered& put =
        harness.Run(harness.Put(memgest, key, value, {.large = value.size() > 8192}));
    if (put.outcome == Outcome::kOk) {
      stored[key] = value;
    } else {
      ASSERT_EQ(put.outcome, Outcome::kResourceExhausted);
      ++refused;
    }
  }
  ASSERT_EQ(refused, 10);
  harness.Settle();
  for (const auto& [key, value] : stored) {
    ASSERT_TRUE(harness.Run(harness.Get(key)).value == value) << key;
  }
  // A move needs memory, too: as much as a put that found none.
  bool full = false;
  for (unsigned i = 0; i < 400 && !full; ++i) {
    const std::string key = "z" + std::to_string(i);
    const std::string value = Bytes(300'000, i);
    const Outcome put = harness.Run(harness.Put(kRep4, key, value, {.large = true})).outcome;
    full = put == Outcome::kResourceExhausted;
    if (put == Outcome::kOk) stored[key] = value;
  }
  ASSERT_TRUE(full);
  const auto large = std::find_if(stored.begin(), stored.end(), [](const auto& one) {
    return one.first[0] == 'k' && one.second.size() == 300'000;
  });
  ASSERT_NE(large, stored.end());
  EXPECT_EQ(harness.Run(harness.Move(large->first, kRep4)).outcome, Outcome::kResourceExhausted);
  harness.Settle();
  harness.Scrub();
  for (const auto& [key, value] : stored) {
    ASSERT_EQ(harness.Run(harness.Delete(key)).outcome, Outcome::kOk);
  }
  harness.Settle();
  EXPECT_EQ(harness.LiveLines(), 0u);
  for (const MemgestId memgest : {kSrs32, kRep3}) {
    EXPECT_EQ(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u);
    for (unsigned i = 0; i < 5; ++i) {
      const std::string key = "again" + std::to_string(i);
      ASSERT_EQ(harness.Run(harness.Put(memgest, key, Bytes(300'000, i), {.large = true})).outcome,
                Outcome::kOk);
      ASSERT_EQ(harness.Run(harness.Delete(key)).outcome, Outcome::kOk);
    }
  }
  harness.Settle();
  harness.Scrub();
}

// A request that found no slot while old versions are on their way out waits for them instead of
// being refused.
TEST(Shard, F11APutWaitsForCollectionsThatAreUnderWay) {
  HarnessOptions options;
  options.line_count_max = 1024;
  ShardHarness harness(options);
  unsigned count = 0;
  for (; count < 2000; ++count) {
    const Answered& put = harness.Run(harness.Put(kRep3, "k" + std::to_string(count), "v"));
    if (put.outcome != Outcome::kOk) break;
  }
  ASSERT_LT(count, 2000u);
  harness.Settle();
  harness.Delete("k0");
  const int put = harness.Put(kRep3, "new", "v");
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kResourceExhausted);  // nothing is on its way yet
  for (int i = 1; i < 10; ++i) harness.Delete("k" + std::to_string(i));
  harness.Turn();
  EXPECT_EQ(harness.Run(harness.Put(kRep3, "new", "v")).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// 1,024 entries uncommitted: more must wait, none is lost.
TEST(Shard, X4MoreThanTheLogHoldsWaits) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  std::deque<TestClient> clients;
  std::vector<int> puts;
  for (unsigned i = 0; i < 1200; ++i) {
    if (i % 100 == 0) clients.emplace_back(1000 + i);
    puts.push_back(
        harness.Put(kRep2, "k" + std::to_string(i % 50), "v", {.client = &clients.back()}));
    if (i % 50 == 0) harness.Turn();
  }
  EXPECT_GT(harness.shard().stalled(), 0u);
  harness.Settle();
  for (const int put : puts) EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
