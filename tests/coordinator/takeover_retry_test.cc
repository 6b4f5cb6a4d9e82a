// What is sent again to a node that took a shard over: X7, and G10 for what the node itself sends.
#include <map>
#include <string>

#include "tests/coordinator/shard_harness.h"
#include "tests/coordinator/takeover_steps.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

constexpr MemgestId kStrong[] = {kRep2, kRep3, kRep4, kSrs21, kSrs31, kSrs32};

// X7: the record of a put into Rep(1) went with the log of Rep(1), and a move had carried its value
// to where it survived.
TEST(TakeOver, X7APutIntoRep1WhoseValueWasMovedOnIsNotDecidedAnew) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();  // stays under way, so that all records of the client stay
  const int plain = harness.Put(kRep1, "plain", "v", {.client = &client});
  const int conditional =
      harness.Put(kRep1, "conditional", "v", {.client = &client, .conditional = true});
  for (const int put : {plain, conditional}) harness.Run(put);
  for (const char* const key : {"plain", "conditional"}) harness.Run(harness.Move(key, kRep3));
  harness.Settle();
  TakeOverAndServe(harness);
  for (const int put : {plain, conditional}) {
    EXPECT_EQ(harness.Run(harness.Resend(put, Version())).outcome, Outcome::kUnknown);
    EXPECT_EQ(harness.Chain(harness.sent(put).key).size(), 1u) << "executed twice";
  }
}

TEST(TakeOver, X7OnlyWhatMayHaveRunInRep1BeforeIsUnknown) {
  ShardHarness harness;
  const Version known = harness.Run(harness.Put(kRep3, "key", "old")).version;
  harness.Settle();
  harness.SetFlow(false, false);
  TestClient client(7);
  client.Take();
  const int weak = harness.Put(kRep1, "weak", "v", {.client = &client});
  const int strong = harness.Put(kRep3, "strong", "v", {.client = &client});
  const int move = harness.Move("key", kRep2, {.client = &client});
  TakeOverAndServe(harness);
  const Version now = harness.Run(harness.Put(kRep3, "other", "v")).version;
  EXPECT_EQ(harness.Run(harness.Resend(strong, known)).outcome, Outcome::kOk);
  EXPECT_EQ(RunFetching(harness, harness.Resend(move, known)).outcome, Outcome::kOk);
  EXPECT_EQ(harness.Run(harness.Resend(weak, known)).outcome, Outcome::kUnknown);
  const int first_attempt = harness.Put(kRep1, "mine", "v", {.client = &client});
  EXPECT_EQ(harness.Run(first_attempt).outcome, Outcome::kOk);
  // What this coordinator had answered before the first attempt says that it was made of it.
  EXPECT_EQ(harness.Run(harness.Resend(weak, now)).outcome, Outcome::kOk);
}

// ... and what a delete did is known wherever the key was: its tombstone, and its record, survive.
TEST(TakeOver, X7ADeleteOfWhatWasInRep1IsKnownToTheNextCoordinator) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  harness.Run(harness.Put(kRep1, "weak", "v"));
  harness.Run(harness.Put(kRep1, "rewritten", "v"));
  harness.Run(harness.Put(kRep3, "strong", "v"));
  std::map<std::string, int> deletes;
  for (const char* const key : {"weak", "rewritten"}) {
    deletes[key] = harness.Delete(key, {.client = &client});
    ASSERT_EQ(harness.Run(deletes[key]).outcome, Outcome::kOk);
  }
  harness.Run(harness.Put(kRep3, "rewritten", "again"));
  harness.Settle();
  harness.SetFlow(false, false);
  deletes["strong"] = harness.Delete("strong", {.client = &client});
  TakeOverAndServe(harness);
  for (const auto& [key, number] : deletes) {
    const Version before = harness.answer(number).version;
    const Answered& again = harness.Run(harness.Resend(number, Version()));
    EXPECT_EQ(again.outcome, Outcome::kOk) << key;
    if (key != "strong") {
      EXPECT_EQ(again.version, before) << key << " was deleted twice";
    }
  }
  EXPECT_EQ(RunFetching(harness, harness.Get("rewritten")).value, "again");
}

// ... also when the tombstone was collected, and its memgest deleted while Rep(1) is the default.
TEST(TakeOver, X7ADeleteWhoseMemgestIsGoneIsNotRunAgain) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  harness.Run(harness.Put(kSrs32, "key", "v"));
  const int gone = harness.Delete("key", {.client = &client});
  ASSERT_EQ(harness.Run(gone).outcome, Outcome::kOk);
  harness.Settle();
  harness.shard().SetMemgestState(kSrs32, protocol::MemgestState::kDraining);
  const auto left = [&] {
    const DrainCounts counts = harness.shard().Drain(kSrs32, kRep1, nullptr);
    return counts.keys + counts.versions + counts.records + counts.pending;
  };
  for (int i = 0; i < 10 && left() > 0; ++i) harness.Settle();
  ASSERT_EQ(left(), 0u);
  harness.RemoveMemgest(kSrs32);
  const Version known;
  ASSERT_EQ(harness.Run(harness.Put(kRep3, "key", "new")).outcome, Outcome::kOk);
  harness.Settle();
  TakeOverAndServe(harness);
  EXPECT_EQ(harness.Run(harness.Resend(gone, known)).outcome, Outcome::kOk);
  EXPECT_EQ(RunFetching(harness, harness.Get("key")).value, "new") << "deleted a second time";
}

// The node that drops a memgest's contents loses the shard to another, and gets it back.
TEST(TakeOver, G10ADropGoesOnAtTheSameStart) {
  ShardHarness harness;
  for (int i = 0; i < 200; ++i) harness.Run(harness.Put(kSrs32, std::to_string(i), "v"));
  const memgest::ClientId dropper{9, 9};
  const auto drop = [&] {
    harness.shard().SetMemgestState(kSrs32, protocol::MemgestState::kDraining);
    const std::uint64_t before = harness.shard().FindMemgest(kSrs32)->key_count;
    for (int i = 0; i < 3; ++i) {
      harness.shard().Drain(kSrs32, kRep3, &dropper);
      harness.Settle();
    }
    return before - harness.shard().FindMemgest(kSrs32)->key_count;
  };
  EXPECT_GT(drop(), 0u);
  ASSERT_GT(harness.shard().FindMemgest(kSrs32)->key_count, 0u);
  TakeOverAndServe(harness);
  EXPECT_GT(drop(), 0u) << "what is asked for was done already, for other keys";
}

// The default memgest of an earlier attempt need not be that of today.
TEST(TakeOver, X7ADefaultPutIsNotDecidedByTheNewDefault) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  Sent put;
  put.client = &client;
  put.key = "key";
  put.value = "first";
  put.request.operation = protocol::Operation::kPut;
  put.request.flags = protocol::kDefaultMemgest;
  put.request.memgest = kRep1;
  put.request.seq = client.Take();
  put.request.incomplete_delta = 1;
  ASSERT_EQ(harness.Run(harness.Send(put)).outcome, Outcome::kOk);
  ASSERT_EQ(harness.Run(harness.Put(kRep3, "key", "second")).outcome, Outcome::kOk);
  harness.Settle();
  TakeOverAndServe(harness);
  harness.shard().SetWeakPast({.was_default = true});
  put.request.memgest = kRep3;
  put.request.flags |= protocol::kRetried;
  EXPECT_EQ(harness.Run(harness.Send(put)).outcome, Outcome::kUnknown);
  EXPECT_EQ(RunFetching(harness, harness.Get("key")).value, "second");
  put.request.flags = protocol::kDefaultMemgest;
  put.request.seq = client.Take();
  EXPECT_EQ(harness.Run(harness.Send(put)).outcome, Outcome::kOk) << "a first attempt";
}

// Tombstones were in Rep(1) while there was nothing stronger.
TEST(TakeOver, X7ADeleteFromBeforeTheFirstStrongMemgestIsUnsure) {
  ShardHarness harness;
  for (const MemgestId strong : kStrong) harness.RemoveMemgest(strong);
  TestClient client(7);
  client.Take();
  harness.Run(harness.Put(kRep1, "key", "v"));
  const int gone = harness.Delete("key", {.client = &client});
  ASSERT_EQ(harness.Run(gone).outcome, Outcome::kOk);
  harness.Settle();
  TakeOverAndServe(harness);
  protocol::MemgestDescriptor first = PaperMemgests(protocol::kBlockSizeDefault)[kRep3.value()];
  first.id = MemgestId(kMemgestCount);
  first.name = "first";
  harness.shard().AddMemgest(first, 0);
  harness.shard().SetWeakPast({.was_alone = true});
  EXPECT_EQ(harness.Run(harness.Resend(gone, Version())).outcome, Outcome::kUnknown);
}

// E8: a log that was adopted short although records were in it.
TEST(TakeOver, X7WhatMayHaveRunInALogThatIsLostIsNotDecidedAnew) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  harness.SetFlow(false, false);
  const int put = harness.Put(kRep3, "key", "v", {.client = &client});
  const int gone = harness.Delete("key", {.client = &client});
  TakeOverAndServe(harness);
  harness.shard().NoteLost(kRep3);
  for (const int number : {put, gone})
    EXPECT_EQ(harness.Run(harness.Resend(number, Version())).outcome, Outcome::kUnknown);
}

}  // namespace
}  // namespace ring::coordinator
