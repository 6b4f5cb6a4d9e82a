// Memory that freed slots leave behind is given back: S3, G2.
#include <string>

#include "ring/base/random.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/coordinator/takeover_steps.h"
#include "tests/support/random_seed.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

constexpr int kKeyCount = 60;

std::string Key(int i) { return "key" + std::to_string(i); }

void Load(ShardHarness& harness, MemgestId memgest, std::size_t size) {
  for (int i = 0; i < kKeyCount; ++i) {
    harness.Run(harness.Put(memgest, Key(i), Bytes(size, static_cast<std::uint64_t>(i))));
  }
  harness.Settle();
}

// Less than this is not worth a walk.
constexpr std::uint64_t kLeftMax = 256 * 1024;

TEST(Release, WhatDeletesLeaveBehindTakesNoMemoryAnywhere) {
  for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
    SCOPED_TRACE(id);
    ShardHarness harness;
    Load(harness, MemgestId(id), 50'000);
    memgest::HeapSpace& heap = harness.shard().FindMemgest(MemgestId(id))->heap();
    EXPECT_GE(heap.touched_bytes(), 60u * 50'000);
    EXPECT_GT(heap.reserved_bytes(), memgest::HeapSpace::kChunkSize);
    for (int i = 0; i < kKeyCount; ++i) harness.Run(harness.Delete(Key(i)));
    harness.Settle();
    harness.Scrub();
    EXPECT_LT(heap.touched_bytes(), kLeftMax);
    EXPECT_EQ(heap.reserved_bytes(), memgest::HeapSpace::kChunkSize);
    for (MemberTwin* member : harness.members()) {
      if (const memgest::HeapSpace* copy = member->shard().replica_heap(MemgestId(id))) {
        EXPECT_EQ(copy->touched_bytes(), heap.touched_bytes());
        EXPECT_EQ(copy->reserved_bytes(), memgest::HeapSpace::kChunkSize);
      }
      if (const memgest::ParityStore* parity = member->parity(MemgestId(id))) {
        EXPECT_EQ(parity->heap().touched_bytes(), heap.touched_bytes());
        EXPECT_EQ(parity->heap().reserved_bytes(), memgest::HeapSpace::kChunkSize);
      }
    }
    Load(harness, MemgestId(id), 50'000);  // the slots serve again
    harness.Scrub();
  }
}

// Puts until there is no memory; gives how many were done.
int PutWhileThereIsRoom(ShardHarness& harness, MemgestId memgest) {
  for (int i = 0;; ++i) {
    const int put = harness.Put(memgest, Key(i), Bytes(50'000, static_cast<std::uint64_t>(i)));
    if (harness.Run(put).outcome != Outcome::kOk) return i;
  }
}

// F11: of one arena, whichever memgest it was used by first.
TEST(Release, F11MemoryThatOneMemgestNeedsNoMoreServesAnother) {
  HarnessOptions options;
  options.memory_limit = std::size_t{32} << 20;
  ShardHarness harness(options);
  for (const MemgestId memgest : {kRep3, kSrs32, kRep1, kRep3}) {
    SCOPED_TRACE(memgest.value());
    const int count = PutWhileThereIsRoom(harness, memgest);
    EXPECT_GE(count, 150);
    for (int i = 0; i < count; ++i) harness.Run(harness.Delete(Key(i)));
    harness.Settle();
  }
  harness.Scrub();
}

// What was given back on one node is not asked for on the next.
TEST(Release, F11WhoTakesOverNeedsNoMoreMemoryThanWhoWasThereBefore) {
  HarnessOptions options;
  options.memory_limit = std::size_t{32} << 20;
  ShardHarness harness(options);
  int count = 0;
  for (const MemgestId memgest : {kSrs32, kRep3, kSrs32}) {
    for (int i = 0; i < count; ++i) harness.Run(harness.Delete(Key(i)));
    harness.Settle();
    count = PutWhileThereIsRoom(harness, memgest);
    ASSERT_GE(count, 150);
  }
  harness.Run(harness.Delete(Key(0)));  // for what the takeover itself takes
  harness.Settle();
  TakeOverAndServe(harness);
  for (int i = 1; i < count; ++i)
    ASSERT_EQ(RunFetching(harness, harness.Get(Key(i))).outcome, Outcome::kOk) << i;
}

TEST(Release, S3MovesBetweenAllMemgestsLeaveEqualParities) {
  SeededRandom random(ring::testing::SeedFor("release"));
  ShardHarness harness;
  Load(harness, kRep3, 30'000);
  for (int step = 0; step < 600; ++step) {
    const std::string key = Key(static_cast<int>(random.Below(kKeyCount)));
    const MemgestId to(static_cast<std::uint16_t>(random.Below(kMemgestCount)));
    switch (random.Below(4)) {
      case 0:
        harness.Run(harness.Put(to, key, Bytes(1 + random.Below(60'000), random.Next64())));
        break;
      case 1:
        harness.Run(harness.Delete(key));
        break;
      default:
        harness.Run(harness.Move(key, to));
    }
    if (random.Below(100) == 0) {
      harness.Settle();
      harness.Scrub();
    }
  }
  harness.Settle();
  harness.Scrub();
  EXPECT_GT(harness.device().discarded, 0u) << "nothing was ever given back";
}

// Of all replicas together.
std::uint64_t TouchedByReplicas(ShardHarness& harness, MemgestId memgest) {
  std::uint64_t bytes = 0;
  for (MemberTwin* member : harness.members()) {
    if (const memgest::HeapSpace* copy = member->shard().replica_heap(memgest))
      bytes += copy->touched_bytes();
  }
  return bytes;
}

// The new coordinator's own heap never had it.
TEST(Release, WhatWasFreedBeforeATakeoverTakesNoMemoryAnywhere) {
  for (const MemgestId id : {kRep2, kRep3, kRep4}) {
    SCOPED_TRACE(id.value());
    ShardHarness harness;
    Load(harness, id, 50'000);
    for (int i = 1; i < kKeyCount; ++i) harness.Run(harness.Delete(Key(i)));
    harness.Turns(30);  // all is collected, and no period over
    ASSERT_LE(harness.shard().FindMemgest(id)->allocator().used_bytes(), 60'000u);
    TakeOverAndServe(harness);
    ASSERT_GE(TouchedByReplicas(harness, id), 60u * 50'000) << "nothing is left for the test";
    memgest::HeapSpace& heap = harness.shard().FindMemgest(id)->heap();
    EXPECT_LE(heap.touched_bytes(), 60'000u) << "it costs nothing here";
    harness.Settle();
    EXPECT_LE(heap.touched_bytes(), 60'000u);
    for (MemberTwin* member : harness.members()) {
      if (const memgest::HeapSpace* copy = member->shard().replica_heap(id)) {
        EXPECT_EQ(copy->touched_bytes(), heap.touched_bytes());
      }
    }
    harness.FetchRest();
    Load(harness, id, 50'000);  // the slots serve again
    harness.Scrub();
  }
}

// S3: of a coded memgest the bytes of what was freed come back first, and count until a delta.
TEST(Release, WhatWasFreedOfACodedMemgestBeforeATakeoverGoesBackBehindIt) {
  ShardHarness harness;
  Load(harness, kSrs32, 50'000);
  for (int i = 1; i < kKeyCount; ++i) harness.Run(harness.Delete(Key(i)));
  harness.Turns(30);  // all is collected, and no period over
  TakeOverAndServe(harness);
  harness.FetchRest();
  memgest::HeapSpace& heap = harness.shard().FindMemgest(kSrs32)->heap();
  ASSERT_GE(heap.touched_bytes(), (kKeyCount - 1) * 50'000u) << "nothing is left for the test";
  harness.Settle();
  EXPECT_LT(heap.touched_bytes(), kLeftMax);
  for (MemberTwin* member : harness.members()) {
    if (const memgest::ParityStore* parity = member->parity(kSrs32)) {
      EXPECT_EQ(parity->heap().touched_bytes(), heap.touched_bytes());
    }
  }
  harness.Scrub();
}

TEST(Release, PartsOfAPutThatATakeoverEndedTakeNoMemory) {
  ShardHarness harness;
  harness.holds_reads = true;
  harness.Put(kRep3, "k", Bytes(1'000'000, 1), {.large = true});
  for (int part = 0; part < 10; ++part) {
    for (int i = 0; i < 5 && harness.reads() == 0; ++i) harness.Turn();
    harness.FinishRead(true);
  }
  harness.Turns(5);
  TakeOverAndServe(harness);
  ASSERT_GE(TouchedByReplicas(harness, kRep3), 2u * 9 * 65'536) << "nothing is left for the test";
  harness.Settle();
  EXPECT_EQ(TouchedByReplicas(harness, kRep3), 0u);
  harness.Scrub();
}

// Too few of its members are left: it takes no entries.
TEST(Release, AStuckLogGivesBackInTheNextEpoch) {
  ShardHarness harness;
  Load(harness, kRep3, 50'000);
  for (int i = 0; i < kKeyCount; ++i) harness.Run(harness.Delete(Key(i)));
  harness.Turns(100);
  for (const int role : {3, 4}) harness.member(role).qp.Fail();
  harness.Put(kRep3, "other", "v");  // by which the coordinator notices
  harness.Turns(3);
  ASSERT_TRUE(harness.shard().log().Stuck(*harness.shard().FindMemgest(kRep3)));
  for (int i = 0; i < 4; ++i) harness.Turn(300'000'000);
  EXPECT_GE(TouchedByReplicas(harness, kRep3), 2u * 60 * 50'000);
  harness.BeginEpoch();
  harness.Normal();
  harness.Settle();
  EXPECT_LT(TouchedByReplicas(harness, kRep3), 2 * kLeftMax);
  harness.Scrub();
}

TEST(Release, AShardComesToRestWithoutAStuckLog) {
  ShardHarness harness;
  Load(harness, kRep3, 50'000);
  for (int i = 0; i < kKeyCount; ++i) harness.Run(harness.Delete(Key(i)));
  harness.Turns(100);
  harness.BeginEpoch({3, 4});
  harness.Normal();
  ASSERT_TRUE(harness.shard().log().Stuck(*harness.shard().FindMemgest(kRep3)));
  harness.Settle();
  EXPECT_GE(harness.shard().FindMemgest(kRep3)->heap().touched_bytes(), 60u * 50'000);
}

// V6: the slot of an answer that is still being sent stays what it is.
TEST(Release, V6APinnedSlotIsNotGivenBack) {
  ShardHarness harness;
  Load(harness, kRep3, 50'000);
  harness.holds_sends = true;
  const int get = harness.Get(Key(0));
  harness.Turns(3);
  for (int i = 0; i < kKeyCount; ++i) harness.Run(harness.Delete(Key(i)));
  harness.Turn(300'000'000);
  harness.Turn(300'000'000);
  harness.Turns(200);
  memgest::HeapSpace& heap = harness.shard().FindMemgest(kRep3)->heap();
  EXPECT_GE(heap.touched_bytes(), 50'000u);
  EXPECT_LE(heap.touched_bytes(), 60'000u);
  harness.FinishSends();
  harness.holds_sends = false;
  harness.Settle();
  EXPECT_EQ(harness.answer(get).value, Bytes(50'000, 0));
  harness.Scrub();
}

// What moves away and comes back before a period ends needs its pages again.
TEST(Release, WhatIsTakenAgainSoonKeepsItsPages) {
  ShardHarness harness;
  Load(harness, kRep3, 50'000);
  harness.Turn(300'000'000);
  const std::size_t before = harness.device().discarded;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < kKeyCount; ++i) harness.Run(harness.Move(Key(i), kRep2));
    harness.Turns(20);
    for (int i = 0; i < kKeyCount; ++i) harness.Run(harness.Move(Key(i), kRep3));
    harness.Turns(20);
  }
  EXPECT_EQ(harness.device().discarded, before);
  harness.Settle();
  EXPECT_GT(harness.device().discarded, before);
  harness.Scrub();
}

TEST(Release, OverwritingInTurnKeepsItsPages) {
  ShardHarness harness;
  Load(harness, kRep3, 50'000);
  const std::size_t before = harness.device().discarded;
  for (int i = 0; i < 5; ++i) {
    harness.Run(harness.Put(kRep3, Key(i), Bytes(50'000, 7)));
    harness.Settle();
  }
  EXPECT_EQ(harness.device().discarded, before) << "less than an eighth was freed";
}

}  // namespace
}  // namespace ring::coordinator
