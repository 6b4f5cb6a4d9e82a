// Exactly once and conditions: X1, X2, X3, X4, X5, V9.
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

TEST(Answer, X1ARetryDoesNotExecuteAgain) {
  ShardHarness harness;
  const int a = harness.Put(kRep3, "k", "a");
  const Version version = harness.Run(a).version;
  TestClient other(2);
  harness.Run(harness.Put(kSrs21, "k", "b", {.client = &other}));
  const Answered& again = harness.Run(harness.Resend(a));
  EXPECT_EQ(again.outcome, Outcome::kOk);
  EXPECT_EQ(again.version, version);
  EXPECT_EQ(again.memgest, kRep3);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "b");
  harness.Settle();
  harness.Scrub();
}

// X1: what was asked for is the default memgest, whichever that is by now.
TEST(Answer, X1ARetryAfterTheDefaultMemgestChangedIsTheSameRequest) {
  for (const bool large : {false, true}) {
    ShardHarness harness;
    const std::string value = Bytes(large ? 100'000 : 100, 1);
    Sent first;
    first.key = "k";
    first.value = value;
    first.client = harness.client();
    first.request.operation = protocol::Operation::kPut;
    first.request.flags = protocol::kDefaultMemgest | (large ? protocol::kLargeValue : 0);
    first.request.memgest = kRep3;  // the default when it comes
    first.request.seq = harness.client()->Take();
    const int put = harness.Send(first);
    harness.Turn();
    Sent retry = harness.sent(put);
    retry.request.memgest = kSrs32;  // and when it comes again: while under way...
    harness.Send(retry);
    const Version version = harness.Run(put).version;
    const int late = harness.Send(retry);  // ...and when it is done
    EXPECT_EQ(harness.Run(late).outcome, Outcome::kOk);
    EXPECT_EQ(harness.answer(late).version, version);
    EXPECT_EQ(harness.answer(late).memgest, kRep3);
    const Answered& got = harness.Run(harness.Get("k"));
    EXPECT_EQ(got.version, version);
    EXPECT_EQ(got.memgest, kRep3);
    EXPECT_EQ(harness.shard().counters().puts, 1u);
    // Who names the memgest asks for something else.
    retry.request.flags &= static_cast<std::uint8_t>(~protocol::kDefaultMemgest);
    const int named = harness.Send(retry);
    EXPECT_EQ(harness.Run(named).outcome, Outcome::kRequestReused);
    harness.Settle();
  }
}

// X1: the record is checked across all memgests and keys of the shard.
TEST(Answer, X2TheSameSeqWithAnotherPayloadIsAnError) {
  ShardHarness harness;
  const int put = harness.Put(kRep3, "k", "a");
  harness.Run(put);
  const auto changed = [&](auto change) {
    Sent other = harness.sent(put);
    change(&other);
    const int number = harness.Send(std::move(other));
    return harness.Run(number).outcome;
  };
  EXPECT_EQ(changed([](Sent* s) { s->value = "b"; }), Outcome::kRequestReused);
  EXPECT_EQ(changed([](Sent* s) { s->key = "other"; }), Outcome::kRequestReused);
  EXPECT_EQ(changed([](Sent* s) { s->key = "l"; }), Outcome::kRequestReused);
  EXPECT_EQ(changed([](Sent* s) { s->request.memgest = kRep1; }), Outcome::kRequestReused);
  EXPECT_EQ(changed([](Sent* s) { s->request.operation = protocol::Operation::kDelete; }),
            Outcome::kRequestReused);
  EXPECT_EQ(changed([](Sent* s) { s->request.flags |= protocol::kIfVersion; }),
            Outcome::kRequestReused);
  EXPECT_EQ(changed([](Sent*) {}), Outcome::kOk);
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  const Version version = harness.answer(put).version;
  const int guarded = harness.Delete("k", {.conditional = true, .if_version = version});
  harness.Run(guarded);
  Sent unguarded = harness.sent(guarded);
  unguarded.request.if_version = Version(Epoch(4), 1);
  EXPECT_EQ(harness.Run(harness.Send(std::move(unguarded))).outcome, Outcome::kRequestReused);
  harness.Settle();
  harness.Scrub();
}

TEST(Answer, X2ADuplicateInFlightAttaches) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int put = harness.Put(kSrs32, "k", "a");
  const int again = harness.Resend(put);
  const int third = harness.Resend(put);
  harness.Turns(20);
  EXPECT_FALSE(harness.answered(put) || harness.answered(again) || harness.answered(third));
  harness.Settle();
  // The last copy is answered; those before it may have lost their connections.
  ASSERT_EQ(harness.Chain("k").size(), 1u);
  EXPECT_TRUE(harness.answered(third));
  for (const int copy : {put, again, third}) {
    if (harness.answered(copy)) {
      EXPECT_EQ(harness.answer(copy).version, harness.Chain("k")[0]);
    }
  }
  EXPECT_EQ(harness.shard().counters().puts, 1u);
  harness.Scrub();
}

// X5: a copy that may not wait any more is not told that nothing was done.
TEST(Answer, X5ACopyTooManyIsToldThatItIsUnknown) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int put = harness.Put(kSrs32, "k", "a");
  std::vector<int> waiting;
  for (std::uint16_t slot = 1; slot <= 100; ++slot) {
    Sent again = harness.sent(put);
    again.request.reply.slot = slot;
    const int copy = harness.Send(std::move(again));
    if (harness.answered(copy)) {
      ASSERT_EQ(harness.outcome(copy), Outcome::kUnknown);
    } else {
      waiting.push_back(copy);
    }
  }
  EXPECT_GT(waiting.size(), 1u);
  EXPECT_LT(waiting.size(), 50u) << "one client's copies are as many as it likes";
  harness.Settle();
  for (const int copy : waiting) EXPECT_EQ(harness.outcome(copy), Outcome::kOk);
  EXPECT_EQ(harness.shard().counters().puts, 1u);
  harness.Scrub();
}

// X2: also while a large value is still being fetched, when there is no entry yet.
TEST(Answer, X2ADuplicateOfALargePutAttaches) {
  ShardHarness harness;
  harness.holds_reads = true;
  const int put = harness.Put(kSrs32, "k", Bytes(200'000, 1), {.large = true});
  harness.Turns(3);
  const int again = harness.Resend(put);
  harness.Turns(3);
  EXPECT_EQ(harness.reads(), 1u) << "the duplicate fetches, too";
  EXPECT_FALSE(harness.shard().HasWork()) << "it is looked at in each turn";
  harness.Settle();
  ASSERT_EQ(harness.Chain("k").size(), 1u);
  EXPECT_EQ(harness.answer(again).version, harness.Chain("k")[0]);
  harness.Scrub();
}

// X2: what is READ over a connection that the client left may be long in failing.
TEST(Answer, X2ADuplicateFromAnotherConnectionFetchesALargePutAnew) {
  ShardHarness harness;
  harness.holds_reads = true;
  const int put = harness.Put(kSrs32, "k", Bytes(200'000, 1), {.large = true});
  harness.Turns(3);
  Sent other = harness.sent(put);
  ++other.request.reply.generation;
  const int again = harness.Send(std::move(other));
  harness.Turns(3);
  EXPECT_EQ(harness.reads(), 2u) << "it waits for the one that is left";
  harness.Settle();
  ASSERT_EQ(harness.Chain("k").size(), 1u);
  EXPECT_EQ(harness.answer(again).version, harness.Chain("k")[0]);
  EXPECT_EQ(harness.outcome(put), Outcome::kUnavailable);
  EXPECT_EQ(harness.shard().counters().puts, 1u);
  harness.Scrub();
}

TEST(Answer, X2TheRecordOutlivesTheRingAndTheVersion) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  ShardHarness harness(options);
  const int put = harness.Put(kRep3, "k", "a");
  const int removed = harness.Put(kRep2, "gone", "a");
  const Version version = harness.Run(put).version;
  harness.Run(removed);
  TestClient other(2);
  harness.Run(harness.Delete("gone", {.client = &other}));
  for (int i = 0; i < 3000; ++i) {  // about 4 KiB each: the ring wraps a dozen times
    harness.Run(harness.Put(kRep4, "k", Bytes(4000, 3), {.client = &other}));
  }
  EXPECT_GT(harness.member(3).writer()->position(), 10 * options.ring_size);
  harness.Settle();
  EXPECT_TRUE(harness.Chain("gone").empty());
  EXPECT_EQ(harness.Run(harness.Resend(put)).version, version);
  EXPECT_EQ(harness.Run(harness.Resend(removed)).outcome, Outcome::kOk);
  EXPECT_TRUE(harness.Chain("gone").empty());
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  harness.Scrub();
}

TEST(Answer, X3ASeqBelowTheFirstIncompleteIsDropped) {
  ShardHarness harness;
  const int first = harness.Put(kRep1, "k", "a");
  harness.Run(first);
  harness.Run(harness.Put(kRep1, "k", "b"));  // says that the first is complete
  EXPECT_EQ(harness.Run(harness.Resend(first)).outcome, Outcome::kStaleRequest);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "b");
}

// X4: a client may have 1,024 requests outstanding; its records go with its first incomplete one.
TEST(Answer, X4A1025thOutstandingRequestIsRefused) {
  ShardHarness harness;
  TestClient client(3);
  const std::uint64_t held = client.Take();  // a request that never arrives
  for (int i = 0; i < 1023; ++i) {
    ASSERT_EQ(harness.Run(harness.Put(kRep1, "k", "x", {.client = &client})).outcome, Outcome::kOk)
        << i;
  }
  EXPECT_EQ(harness.Run(harness.Put(kRep1, "k", "x", {.client = &client})).outcome,
            Outcome::kResourceExhausted);
  client.Finished(held);
  EXPECT_EQ(harness.Run(harness.Put(kRep1, "k", "x", {.client = &client})).outcome, Outcome::kOk);
}

// A client that lies about its first incomplete request harms itself alone.
TEST(Answer, X4AWindowWiderThanAllowedIsRefused) {
  ShardHarness harness;
  TestClient client(4);
  int last = 0;
  for (int i = 0; i < 2000; ++i) {
    last = harness.Put(kRep1, "k", "x", {.client = &client});
    harness.Run(last);
  }
  for (const std::uint32_t delta : {1024u, 1999u, 65536u, 0xffffffffu}) {
    Sent sent = harness.sent(last);
    sent.request.seq = client.Take();
    sent.request.incomplete_delta = delta;
    EXPECT_NE(harness.Run(harness.Send(std::move(sent))).outcome, Outcome::kOk) << delta;
  }
  TestClient honest(5);
  EXPECT_EQ(harness.Run(harness.Put(kRep2, "k", "y", {.client = &honest})).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// X5: what was told as not applied stays so, whatever copies of the request are still under way.
TEST(Answer, X5ADelayedCopyOfADeleteThatFoundNothingDeletesNothing) {
  ShardHarness harness;
  const int removed = harness.Delete("k");
  ASSERT_EQ(harness.Run(removed).outcome, Outcome::kNotFound);
  TestClient other(2);
  harness.Run(harness.Put(kRep3, "k", "new", {.client = &other}));
  EXPECT_EQ(harness.Run(harness.Resend(removed)).outcome, Outcome::kNotFound);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "new");
}

TEST(Answer, X5ADelayedCopyOfARefusedConditionalPutStoresNothing) {
  ShardHarness harness;
  TestClient other(2);
  harness.Run(harness.Put(kRep3, "k", "there", {.client = &other}));
  const int create = harness.Put(kRep3, "k", "mine", {.conditional = true});
  ASSERT_EQ(harness.Run(create).outcome, Outcome::kVersionMismatch);
  harness.Run(harness.Delete("k", {.client = &other}));
  EXPECT_EQ(harness.Run(harness.Resend(create)).outcome, Outcome::kVersionMismatch);
  EXPECT_EQ(harness.Run(harness.Get("k")).outcome, Outcome::kNotFound);
}

TEST(Answer, X5ADelayedCopyOfAMoveThatChangedNothingMovesNothing) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "v"));
  const int move = harness.Move("k", kRep3);
  const Version version = harness.Run(move).version;
  TestClient other(2);
  harness.Run(harness.Move("k", kSrs32, {.client = &other}));
  const Answered& again = harness.Run(harness.Resend(move));
  EXPECT_EQ(again.outcome, Outcome::kOk);
  EXPECT_EQ(again.version, version);
  EXPECT_EQ(harness.Run(harness.Get("k")).memgest, kSrs32);
}

TEST(Answer, X5ADelayedCopyOfARefusedConditionalDeleteOrMoveChangesNothing) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kRep3, "k", "old")).version;
  TestClient other(2);
  const Version now = harness.Run(harness.Put(kRep3, "k", "now", {.client = &other})).version;
  harness.client()->Take();  // the window stays open below
  const int removed = harness.Delete("k", {.conditional = true, .if_version = old});
  const int move = harness.Move("k", kSrs32, {.conditional = true, .if_version = old});
  for (const int number : {removed, move}) {
    ASSERT_EQ(harness.Run(number).outcome, Outcome::kVersionMismatch);
    ASSERT_EQ(harness.answer(number).version, now);
  }
  // Executed anew, both would find no key.
  harness.Run(harness.Delete("k", {.client = &other}));
  harness.Settle();
  for (const int number : {removed, move}) {
    const Answered& again = harness.Run(harness.Resend(number));
    EXPECT_EQ(again.outcome, Outcome::kVersionMismatch);
    EXPECT_EQ(again.version, now);
  }
}

// A move that found damaged bytes was told DATA_LOST: its copy must not move what was put since.
TEST(Answer, X5ADelayedCopyOfAMoveThatFoundDamageMovesNothing) {
  for (const std::size_t size : {100u, 200'000u}) {
    ShardHarness harness;
    harness.Run(harness.Put(kRep3, "k", Bytes(size, 1), {.large = size > 8192}));
    const memgest::MetadataLine& line = harness.shard().lines().line(harness.HeadLine("k"));
    const std::uint32_t at =
        (line.flags & memgest::kLarge) != 0
            ? harness.shard().lines().Ranges(harness.HeadLine("k"))[0].offset_cells
            : line.offset_cells;
    *harness.shard().FindMemgest(kRep3)->heap().At(at) ^= std::byte{1};
    const int move = harness.Move("k", kSrs32);
    ASSERT_EQ(harness.Run(move).outcome, Outcome::kDataLost);
    TestClient other(2);
    const Version now = harness.Run(harness.Put(kRep3, "k", "new", {.client = &other})).version;
    harness.Settle();
    EXPECT_EQ(harness.Run(harness.Resend(move)).outcome, Outcome::kDataLost);
    EXPECT_EQ(harness.Chain("k"), (std::vector<Version>{now}));
  }
}

// A link broke under a put: its retry may not be told "not applied", because the put may be. A new
// put is refused, and that is certain.
TEST(Answer, X5ARetryOfWhatIsUnknownStaysUnknown) {
  ShardHarness harness;
  harness.SetFlow(false, false);
  const int put = harness.Put(kSrs21, "k", "v");
  harness.Turn();
  harness.member(3).qp.Fail();
  harness.SetFlow(true, true);
  harness.Turns(10);
  ASSERT_TRUE(harness.member(3).writer()->broken());
  const int again = harness.Resend(put);
  TestClient other(2);
  const int late = harness.Put(kSrs21, "k", "x", {.client = &other});
  harness.Turns(10);
  EXPECT_FALSE(harness.answered(put));
  EXPECT_FALSE(harness.answered(again));
  EXPECT_EQ(harness.outcome(late), Outcome::kUnavailable);
  EXPECT_TRUE(harness.answered(late));
  EXPECT_EQ(harness.Chain("k").size(), 1u);
}

// What was refused for the time being may be tried again with the same seq.
TEST(Answer, X5ARefusalForTheTimeBeingIsNotRemembered) {
  ShardHarness harness;
  harness.shard().SetMemgestState(kRep3, protocol::MemgestState::kCreating);
  const int put = harness.Put(kRep3, "k", "v");
  EXPECT_EQ(harness.Run(put).outcome, Outcome::kMemgestNotWritable);
  harness.shard().SetMemgestState(kRep3, protocol::MemgestState::kActive);
  EXPECT_EQ(harness.Run(harness.Resend(put)).outcome, Outcome::kOk);
}

// V9: a mismatch is told only from what is committed.
TEST(Answer, V9AMismatchWaitsForTheUncommittedVersionItComesFrom) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kRep3, "k", "old")).version;
  harness.SetFlow(true, false);
  harness.Put(kSrs32, "k", "new");
  const int put = harness.Put(kRep3, "k", "x", {.conditional = true, .if_version = old});
  const int removed = harness.Delete("k", {.conditional = true, .if_version = old});
  const int move = harness.Move("k", kRep2, {.conditional = true, .if_version = old});
  const int create = harness.Put(kRep1, "k", "x", {.conditional = true});
  harness.Turns(10);
  for (const int number : {put, removed, move, create}) EXPECT_FALSE(harness.answered(number));
  harness.Settle();
  for (const int number : {put, removed, move, create}) {
    EXPECT_EQ(harness.outcome(number), Outcome::kVersionMismatch);
    EXPECT_EQ(harness.answer(number).version, harness.Chain("k")[0]);
  }
  harness.Scrub();
}

// V9, as V4: what came above it meanwhile does not keep who asked waiting.
TEST(Answer, V9AMismatchIsToldWhateverIsAppendedMeanwhile) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kSrs32, "k", "old")).version;
  harness.SetFlow(true, false);
  const int seen = harness.Put(kSrs32, "k", "seen");
  harness.Turn();
  const int put = harness.Put(kSrs32, "k", "x", {.conditional = true, .if_version = old});
  const int removed = harness.Delete("k", {.conditional = true, .if_version = old});
  const int create = harness.Put(kRep3, "k", "x", {.conditional = true});
  const int above = harness.Put(kSrs32, "k", "above");
  harness.member(3).Ack(1);
  harness.member(4).Ack(1);
  harness.Turn();
  ASSERT_TRUE(harness.answered(seen));
  ASSERT_FALSE(harness.answered(above));
  for (const int number : {put, removed, create}) {
    ASSERT_TRUE(harness.answered(number));
    EXPECT_EQ(harness.outcome(number), Outcome::kVersionMismatch);
    EXPECT_EQ(harness.answer(number).version, harness.answer(seen).version);
  }
  harness.Settle();
  harness.Scrub();
}

TEST(Answer, V9NotFoundAndCreateWaitForAnUncommittedTombstone) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", "old"));
  harness.SetFlow(true, false);
  harness.Delete("k");
  const int get = harness.Get("k");
  const int removed = harness.Delete("k");
  const int move = harness.Move("k", kRep2);
  const int create = harness.Put(kRep3, "k", "again", {.conditional = true});
  harness.Turns(10);
  for (const int number : {get, removed, move, create}) EXPECT_FALSE(harness.answered(number));
  harness.Settle();
  EXPECT_EQ(harness.outcome(get), Outcome::kNotFound);
  EXPECT_EQ(harness.outcome(create), Outcome::kOk);
  harness.Scrub();
}

TEST(Answer, V9EqualityWithTheHighestKnownVersionAppendsAtOnce) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int first = harness.Put(kSrs32, "k", "1");
  const Version version = harness.Chain("k")[0];
  const int second = harness.Put(kSrs32, "k", "2", {.conditional = true, .if_version = version});
  EXPECT_EQ(harness.Chain("k").size(), 2u);
  harness.Settle();
  EXPECT_EQ(harness.answer(first).version, version);
  EXPECT_EQ(harness.outcome(second), Outcome::kOk);
  harness.Scrub();
}

// The version told with a mismatch is one that a client can use: none where there is no value.
TEST(Answer, V9AMismatchWithATombstoneTellsNoVersion) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kRep3, "k", "old")).version;
  harness.Run(harness.Delete("k"));
  const Answered& put =
      harness.Run(harness.Put(kRep3, "k", "x", {.conditional = true, .if_version = old}));
  EXPECT_EQ(put.outcome, Outcome::kVersionMismatch);
  EXPECT_EQ(put.version, Version());
}

TEST(Answer, AMutationWithoutClientOrSeqIsRefused) {
  ShardHarness harness;
  Sent sent;
  sent.key = "k";
  sent.value = "v";
  sent.request.operation = protocol::Operation::kPut;
  EXPECT_EQ(harness.Run(harness.Send(sent)).outcome, Outcome::kBadRequest);
  EXPECT_EQ(harness.LiveLines(), 0u);
}

}  // namespace
}  // namespace ring::coordinator
