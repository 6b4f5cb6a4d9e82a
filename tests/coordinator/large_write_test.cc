// Values of more than one entry: S10, S11, X3, X5.
#include "ring/coordinator/large_write.h"
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

TEST(LargeWrite, S10EverySizeThroughEveryMemgest) {
  HarnessOptions options;
  options.block_size = 64 * 1024;
  ShardHarness harness(options);
  for (const std::size_t size : {1u, 8193u, 65535u, 65536u, 65537u, 131072u, 300001u}) {
    for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
      const std::string value = Bytes(size, size + id);
      const std::string key = "k" + std::to_string(id);
      ASSERT_EQ(harness.Run(harness.Put(MemgestId(id), key, value, {.large = true})).outcome,
                Outcome::kOk);
      ASSERT_TRUE(harness.Run(harness.Get(key)).value == value) << size;
    }
  }
  harness.Settle();
  harness.Scrub();
}

// An inline value may be longer than the blocks of a memgest.
TEST(LargeWrite, S10AnInlineValueLongerThanABlock) {
  HarnessOptions options;
  options.block_size = protocol::kBlockSizeMin;
  ShardHarness harness(options);
  for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
    const std::string value = Bytes(7000, id);
    const std::string key = "k" + std::to_string(id);
    ASSERT_EQ(harness.Run(harness.Put(MemgestId(id), key, value)).outcome, Outcome::kOk);
    EXPECT_TRUE(harness.Run(harness.Get(key)).value == value);
  }
  harness.Settle();
  harness.Scrub();
}

TEST(LargeWrite, S10OverTheLimitIsTooLarge) {
  ShardHarness harness;
  const std::string value((std::size_t{16} << 20) + 1, 'x');
  const int put = harness.Put(kRep3, "k", value, {.large = true});
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kTooLarge);
}

// S10: nothing of it is visible before FINAL, and at most one PART goes out a turn.
TEST(LargeWrite, S10PartsAreInvisibleAndComeOneATurn) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kSrs32, "k", "old")).version;
  memgest::Memgest& memgest = *harness.shard().FindMemgest(kSrs32);
  std::uint64_t index = memgest.next_index();
  const int put = harness.Put(kSrs32, "k", Bytes(500'000, 1), {.large = true});
  for (int i = 0; i < 1000 && harness.Chain("k").size() == 1 && harness.Chain("k")[0] == old; ++i) {
    EXPECT_EQ(harness.Run(harness.Get("k")).value, "old");
    harness.Turn();
    EXPECT_LE(memgest.next_index(), index + 1) << "more than one part in a turn";
    index = memgest.next_index();
  }
  harness.Settle();
  EXPECT_EQ(harness.Run(harness.Get("k")).version, harness.answer(put).version);
  harness.Settle();
  harness.Scrub();
}

// S6: blocks whose BASE a new parity has not got yet are barred, also to who took its slot before:
// it is told to come back, and gets another slot then.
TEST(LargeWrite, S6NothingIsAppendedToBlocksWithoutTheirBase) {
  for (const std::size_t size : {500'000, 60'000}) {
    ShardHarness harness;
    memgest::Memgest& memgest = *harness.shard().FindMemgest(kSrs32);
    const int put = harness.Put(kSrs32, "k", Bytes(size, 1), {.large = true});
    harness.Turns(size > memgest::kPayloadSizeMax ? 3 : 1);
    const std::uint32_t barred = memgest.allocator().block_count();
    memgest.allocator().Bar(0, barred);
    const std::uint64_t index = memgest.next_index();
    EXPECT_EQ(harness.Run(put).outcome, Outcome::kUnavailable);
    harness.Turns(50);
    EXPECT_EQ(memgest.next_index(), index);
    ASSERT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
    const auto block_cells =
        static_cast<std::uint32_t>(memgest.allocator().block_size() / kCacheLine);
    memgest::LineTable& lines = harness.shard().lines();
    const std::uint32_t line = harness.HeadLine("k");
    const bool large = (lines.line(line).flags & memgest::kLarge) != 0;
    EXPECT_GE(large ? lines.Ranges(line)[0].offset_cells : lines.line(line).offset_cells,
              barred * block_cells);
    memgest.allocator().Bar(0, 0);
    harness.Settle();
    harness.Scrub();
  }
}

// ... and meanwhile keeps nobody out, whichever memgest they write to: the BASE may never come.
TEST(LargeWrite, S6WhoAwaitsABaseHoldsNoPlace) {
  ShardHarness harness;
  TestClient one(7);
  TestClient two(8);
  std::vector<int> puts;
  for (std::size_t i = 0; i < LargeWrite::kConcurrentMax; ++i) {
    puts.push_back(
        harness.Put(kSrs32, "k" + std::to_string(i), Bytes(500'000, i),
                    {.client = i < LargeWrite::kOfOneClientMax ? &one : &two, .large = true}));
  }
  harness.Turn();
  memgest::Memgest& memgest = *harness.shard().FindMemgest(kSrs32);
  memgest.allocator().Bar(0, memgest.allocator().block_count());
  // What they sent is not acknowledged: their slots are not free again, either.
  harness.member(4).acks = false;
  TestClient other(9);
  const int put = harness.Put(kRep3, "other", Bytes(20'000, 9), {.client = &other, .large = true});
  harness.Turns(30);
  EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  EXPECT_TRUE(harness.answered(put));
  for (const int waiting : puts) {
    EXPECT_EQ(harness.outcome(waiting), Outcome::kUnavailable);
    EXPECT_TRUE(harness.answered(waiting));
  }
  // Nothing more is appended there: a frozen block may be read when all that was is committed.
  EXPECT_FALSE(harness.shard().HasLargeWrite(kSrs32, 0, ~std::uint32_t{0}));
  memgest.allocator().Bar(0, 0);
  harness.Settle();
  harness.Scrub();
}

// S10: a move has its bytes at hand, and still sends one PART a turn.
TEST(LargeWrite, S10APartOfAMoveATurn) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", Bytes(500'000, 1), {.large = true}));
  harness.Settle();
  for (const MemgestId target : {kRep2, kSrs32}) {
    memgest::Memgest& memgest = *harness.shard().FindMemgest(target);
    const int move = harness.Move("k", target);
    for (int i = 0; i < 100 && !harness.answered(move); ++i) {
      const std::uint64_t index = memgest.next_index();
      harness.Turn();
      EXPECT_LE(memgest.next_index(), index + 1) << "more than one part in a turn";
    }
    EXPECT_EQ(harness.outcome(move), Outcome::kOk);
    harness.Settle();
    harness.Scrub();
  }
}

// S10: the connection ends between two PARTs: slots come back, nothing is visible, parities hold.
TEST(LargeWrite, S10InterruptedBetweenPartsLeavesNothing) {
  for (const MemgestId memgest : {kRep1, kRep3, kSrs21, kSrs32}) {
    for (int parts = 0; parts < 9; ++parts) {
      ShardHarness harness;
      harness.holds_reads = true;
      const int put = harness.Put(memgest, "k", Bytes(500'000, 1), {.large = true});
      for (int done = 0; done < parts; ++done) {
        for (int i = 0; i < 20 && harness.reads() == 0; ++i) harness.Turn();
        if (harness.reads() > 0) harness.FinishRead(true);
      }
      for (int i = 0; i < 20 && harness.reads() == 0; ++i) harness.Turn();
      if (harness.reads() == 0) {
        harness.Settle();
        EXPECT_EQ(harness.outcome(put), Outcome::kOk);
        continue;  // all parts were in
      }
      harness.FinishRead(false);
      harness.Settle();
      EXPECT_NE(harness.outcome(put), Outcome::kOk);
      EXPECT_EQ(harness.Run(harness.Get("k")).outcome, Outcome::kNotFound);
      EXPECT_EQ(harness.LiveLines(), 0u);
      EXPECT_EQ(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u);
      harness.Scrub();
      // The same request again, over another connection: it is new.
      EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
      EXPECT_TRUE(harness.Run(harness.Get("k")).value == Bytes(500'000, 1));
      harness.Settle();
      harness.Scrub();
    }
  }
}

// S11: slots of a put that was given up are not used again while the device may read its PARTs.
TEST(LargeWrite, S11AbandonedSlotsWaitForTheDevice) {
  for (const MemgestId memgest : {kRep3, kSrs32}) {
    ShardHarness harness;
    harness.holds_reads = true;
    harness.Put(memgest, "k", Bytes(500'000, 1), {.large = true});
    harness.SetFlow(false, false);
    for (int part = 0; part < 3; ++part) {
      for (int i = 0; i < 5 && harness.reads() == 0; ++i) harness.Turn();
      harness.FinishRead(part < 2);
    }
    harness.Turns(5);
    EXPECT_GT(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u);
    harness.Settle();
    EXPECT_EQ(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u);
    harness.Scrub();
  }
}

TEST(LargeWrite, ABadChecksumLeavesNothing) {
  ShardHarness harness;
  for (const std::size_t size : {20'000u, 200'000u}) {
    harness.holds_reads = true;
    const int put = harness.Put(kSrs32, "k", Bytes(size, 1), {.large = true});
    const_cast<std::string&>(harness.sent(put).value)[size - 1] ^= 1;  // after it was summed
    harness.Settle();
    EXPECT_EQ(harness.outcome(put), Outcome::kBadChecksum);
    EXPECT_EQ(harness.LiveLines(), 0u);
  }
  harness.Scrub();
}

// Nothing is wrong with the request: the same one is sent again, and is new.
TEST(LargeWrite, X5AReadThatCannotBePostedIsRefusedAsUnavailable) {
  for (const MemgestId memgest : {kRep3, kSrs32}) {
    ShardHarness harness;
    harness.refuses_reads = true;
    const int put = harness.Put(memgest, "k", Bytes(100'000, 1), {.large = true});
    harness.Settle();
    EXPECT_EQ(harness.outcome(put), Outcome::kUnavailable);
    EXPECT_EQ(harness.LiveLines(), 0u);
    EXPECT_EQ(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u);
    harness.refuses_reads = false;
    EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
    harness.Settle();
    harness.Scrub();
  }
}

// Large puts of a client that lets the READs of its values wait: "slow0", "slow1", ...
void OfferUnread(ShardHarness& harness, TestClient& slow, int count) {
  harness.holds_reads = true;
  for (int i = 0; i < count; ++i) {
    harness.Put(kSrs32, "slow" + std::to_string(i), Bytes(300'000, 1),
                {.client = &slow, .large = true});
  }
  harness.Turns(5);
}

TEST(LargeWrite, AClientThatLetsItsReadsWaitLeavesScratchAndPlacesToOthers) {
  ShardHarness harness;
  TestClient slow(7);
  TestClient other(8);
  OfferUnread(harness, slow, 10);
  EXPECT_EQ(harness.reads(), LargeWrite::kOfOneClientMax);
  harness.Put(kSrs32, "large", Bytes(300'000, 2), {.client = &other, .large = true});
  harness.Turns(5);
  EXPECT_EQ(harness.reads(), LargeWrite::kOfOneClientMax + 1);
  // Nobody who waits for a client holds any of the scratch.
  std::vector<memgest::DeltaArena::Piece> all;
  for (std::size_t i = 0; i < memgest::DeltaArena::kSegmentCount; ++i) {
    all.push_back(harness.arena().Take(memgest::DeltaArena::kSegmentSize));
    ASSERT_NE(all.back().memory, nullptr) << "segment=" << i;
  }
  for (const memgest::DeltaArena::Piece& piece : all) harness.arena().GiveBack(piece.segment);
  EXPECT_EQ(harness.Run(harness.Put(kSrs32, "small", "v", {.client = &other})).outcome,
            Outcome::kOk);
  harness.Settle();
  EXPECT_TRUE(harness.Run(harness.Get("slow9")).value == Bytes(300'000, 1));
  EXPECT_TRUE(harness.Run(harness.Get("large")).value == Bytes(300'000, 2));
  harness.Settle();
  harness.Scrub();
}

// Two clients that were stopped hold all places; they lose them to whoever moves on, and still come
// to their end once they go on.
TEST(LargeWrite, StoppedClientsDoNotKeepOthersOut) {
  ShardHarness harness;
  TestClient first(7);
  TestClient second(8);
  TestClient other(9);
  OfferUnread(harness, first, 6);
  OfferUnread(harness, second, 6);
  ASSERT_EQ(harness.reads(), LargeWrite::kConcurrentMax);
  harness.Put(kRep3, "other", Bytes(50'000, 2), {.client = &other, .large = true});
  harness.Turns(5);
  EXPECT_EQ(harness.reads(), LargeWrite::kConcurrentMax) << "all places are taken";
  harness.Turn(LargeWrite::kReadSlowNs);
  harness.Turns(5);
  EXPECT_EQ(harness.reads(), LargeWrite::kConcurrentMax + 1) << "nobody else comes to a place";
  harness.holds_reads = false;
  harness.Settle();
  EXPECT_TRUE(harness.Run(harness.Get("other")).value == Bytes(50'000, 2));
  EXPECT_TRUE(harness.Run(harness.Get("slow5")).value == Bytes(300'000, 1));
  harness.Settle();
  harness.Scrub();
}

// What waits for stopped clients has a bound, too.
TEST(LargeWrite, StoppedClientsHoldABoundedNumberOfLargeWrites) {
  ShardHarness harness;
  std::deque<TestClient> clients;
  for (std::uint64_t i = 0; i < 24; ++i) {
    clients.emplace_back(100 + i);
    OfferUnread(harness, clients.back(), 4);
    harness.Turn(LargeWrite::kReadSlowNs);
    harness.Turns(2);
  }
  EXPECT_EQ(harness.reads(), LargeWrite::kUnderWayMax);
  harness.holds_reads = false;
  harness.Settle();
  harness.Scrub();
}

// A client that gives a piece every nine seconds is not stuck, and still comes to its end: others
// wait for the blocks that it writes to. The slot is free when its last READ is done.
TEST(LargeWrite, F11ASlowPutEnds) {
  for (const MemgestId memgest : {kRep3, kSrs32}) {
    ShardHarness harness;
    harness.holds_reads = true;
    TestClient slow(7);
    const int put =
        harness.Put(memgest, "k", Bytes(3'000'000, 1), {.client = &slow, .large = true});
    harness.Turns(2);
    const std::uint64_t begun_ns = harness.now_ns;
    while (!harness.answered(put)) {
      ASSERT_LT(harness.now_ns - begun_ns, 30'000'000'000u);
      ASSERT_EQ(harness.reads(), 1u);
      for (int i = 0; i < 9; ++i) harness.Turn(1'000'000'000);
      if (!harness.answered(put)) harness.FinishRead(true);
      harness.Turns(2);
    }
    EXPECT_EQ(harness.outcome(put), Outcome::kUnavailable);
    EXPECT_FALSE(harness.shard().HasLargeWrite(memgest, 0, ~std::uint32_t{0}));
    harness.Turns(10);
    EXPECT_GT(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u)
        << "a READ may yet land there";
    harness.holds_reads = false;
    harness.Settle();
    EXPECT_EQ(harness.shard().FindMemgest(memgest)->allocator().used_bytes(), 0u);
    EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
    harness.Settle();
    harness.Scrub();
  }
}

// S2: a block is read at a cut when nobody has entries for it to append. Who only waits for a slow
// client's bytes yields; others go on.
TEST(LargeWrite, S2ASlowPutYieldsToACut) {
  ShardHarness harness;
  TestClient slow(7);
  const auto end_slow = [&] {
    harness.shard().EndSlowWrites(kSrs32, 0, 64 * 1024, harness.now_ns);
    return !harness.shard().HasLargeWrite(kSrs32, 0, 64 * 1024);
  };
  OfferUnread(harness, slow, 1);
  EXPECT_FALSE(end_slow());
  harness.Turn(LargeWrite::kReadSlowNs);
  EXPECT_TRUE(end_slow());
  harness.Turn();
  EXPECT_EQ(harness.outcome(0), Outcome::kUnavailable);
  EXPECT_TRUE(harness.answered(0));
  harness.holds_reads = false;
  harness.Settle();
  EXPECT_EQ(harness.Run(harness.Resend(0)).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// Its role is lost while a put that was given up still has a READ under way (V6).
TEST(LargeWrite, V6AGivenUpPutOutlivesTheRoleUntilItsReadIsDone) {
  ShardHarness harness;
  TestClient slow(7);
  OfferUnread(harness, slow, 1);
  harness.Turn(LargeWrite::kReadSlowNs);
  harness.shard().EndSlowWrites(kSrs32, 0, 64 * 1024, harness.now_ns);
  harness.shard().Retire();
  EXPECT_EQ(harness.answer(0).count, 1);
  EXPECT_FALSE(harness.shard().gone());
  harness.FinishRead(true);
  EXPECT_TRUE(harness.shard().gone());
}

// Requests that find no room are tried a few at a time: those behind them have their turn, too.
TEST(LargeWrite, V4AReaderIsNotStarvedByPutsThatFindNoRoom) {
  ShardHarness harness;
  TestClient slow(7);
  TestClient other(8);
  OfferUnread(harness, slow, 60);
  harness.Put(kRep3, "k", "v", {.client = &other});
  const int get = harness.Get("k");  // of a version that is not committed: it waits
  EXPECT_FALSE(harness.answered(get));
  EXPECT_EQ(harness.Run(get).value, "v");
  EXPECT_EQ(harness.reads(), LargeWrite::kOfOneClientMax) << "the slow client's still wait";
  harness.holds_reads = false;
  while (harness.reads() > 0) harness.FinishRead(true);
  harness.Settle();
  harness.Scrub();
}

// F11: what is free lies in runs too short for a value of so many blocks, and there is no more.
TEST(LargeWrite, F11AHeapInPiecesIsExhaustedForALargeValueAndLosesNothing) {
  HarnessOptions options;
  options.block_size = protocol::kBlockSizeMin;
  options.line_count_max = 1u << 21;
  options.memory_limit = std::size_t{96} << 20;
  ShardHarness harness(options);
  const auto key = [](int i) { return "k" + std::to_string(i); };
  int count = 0;
  while (harness.Run(harness.Put(kRep1, key(count), Bytes(4000, 1))).outcome == Outcome::kOk)
    ++count;
  ASSERT_GT(count, 8192);  // twice the blocks of the large value
  for (int i = 0; i < count; i += 2) harness.Run(harness.Delete(key(i)));
  harness.Settle();
  const memgest::SlotAllocator& allocator = harness.shard().FindMemgest(kRep1)->allocator();
  const std::uint64_t used_bytes = allocator.used_bytes();
  const std::uint64_t lines = harness.LiveLines();
  const int put = harness.Put(kRep1, "large", Bytes(16u << 20, 2), {.large = true});
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kResourceExhausted);
  harness.Settle();
  EXPECT_EQ(allocator.used_bytes(), used_bytes);
  EXPECT_EQ(harness.LiveLines(), lines);
  for (int i = 1; i < count; i += 2) harness.Run(harness.Delete(key(i)));
  harness.Settle();
  const int again = harness.Put(kRep1, "large", Bytes(16u << 20, 2), {.large = true});
  harness.Settle();
  EXPECT_EQ(harness.outcome(again), Outcome::kOk);
  EXPECT_TRUE(harness.Run(harness.Get("large")).value == Bytes(16u << 20, 2));
  harness.Settle();
  harness.Scrub();
}

// V9: the condition is looked at again with FINAL; the mismatch tells the version that is there.
TEST(LargeWrite, V9AConditionThatFailsMeanwhileTellsTheVersion) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kRep3, "k", "old")).version;
  harness.holds_reads = true;
  const int put = harness.Put(kSrs32, "k", Bytes(200'000, 1),
                              {.conditional = true, .if_version = old, .large = true});
  harness.Turns(2);
  const Version between = harness.Run(harness.Put(kRep3, "k", "between")).version;
  harness.Settle();
  EXPECT_EQ(harness.outcome(put), Outcome::kVersionMismatch);
  EXPECT_EQ(harness.answer(put).version, between);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "between");
  harness.Settle();
  harness.Scrub();
}

// V9, as V4: it waits for the version that it saw, and for none that came above it since.
TEST(LargeWrite, V9AMismatchIsToldWhateverIsAppendedMeanwhile) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kSrs32, "k", "old")).version;
  harness.holds_reads = true;
  const int put = harness.Put(kRep3, "k", Bytes(20'000, 1),
                              {.conditional = true, .if_version = old, .large = true});
  harness.Turns(2);
  harness.SetFlow(true, false);
  harness.Put(kSrs32, "k", "seen");
  harness.holds_reads = false;
  for (int i = 0; i < 20; ++i) {
    for (const int parity : {3, 4}) harness.member(parity).Ack(i < 5 ? 0 : 1);
    harness.Put(kSrs32, "k", "above");
    harness.Turn();
  }
  ASSERT_TRUE(harness.answered(put));
  EXPECT_EQ(harness.outcome(put), Outcome::kVersionMismatch);
  EXPECT_GT(harness.answer(put).version, old);
}

// X3: the client gave the put up (its deadline passed) and went on; the put must not come to a
// record any more.
TEST(LargeWrite, X3AClientThatGoesOnDropsItsLargePut) {
  for (const std::size_t size : {20'000u, 200'000u}) {
    ShardHarness harness;
    harness.holds_reads = true;
    TestClient client(7);
    const int put = harness.Put(kSrs32, "k", Bytes(size, 1), {.client = &client, .large = true});
    harness.Turns(2);
    client.Finished(harness.sent(put).request.seq);
    harness.Run(harness.Put(kRep3, "other", "v", {.client = &client}));
    harness.Settle();
    EXPECT_EQ(harness.outcome(put), Outcome::kStaleRequest);
    EXPECT_EQ(harness.Run(harness.Get("k")).outcome, Outcome::kNotFound);
    harness.Settle();
    harness.Scrub();
  }
}

// More at once than are taken: the others wait, all come through.
TEST(LargeWrite, ManyAtOnce) {
  ShardHarness harness;
  std::vector<int> puts;
  for (unsigned i = 0; i < 30; ++i) {
    puts.push_back(harness.Put(MemgestId(static_cast<std::uint16_t>(i % kMemgestCount)),
                               "k" + std::to_string(i), Bytes(150'000, i), {.large = true}));
  }
  harness.Settle();
  for (unsigned i = 0; i < 30; ++i) {
    EXPECT_EQ(harness.outcome(puts[i]), Outcome::kOk);
    EXPECT_TRUE(harness.Run(harness.Get("k" + std::to_string(i))).value == Bytes(150'000, i));
  }
  harness.Settle();
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
