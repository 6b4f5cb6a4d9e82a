// Reads: V4, V8, V7 as far as it is the shard's.
#include "tests/coordinator/shard_harness.h"
#include "tests/support/status_matchers.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

TEST(Get, AnswersWhatWasPutInEveryMemgest) {
  ShardHarness harness;
  for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
    const std::string key = "key" + std::to_string(id);
    const std::string value = Bytes(100u + 1000u * id, id);
    const Version version = harness.Run(harness.Put(MemgestId(id), key, value)).version;
    const Answered& got = harness.Run(harness.Get(key));
    EXPECT_EQ(got.outcome, Outcome::kOk);
    EXPECT_EQ(got.version, version);
    EXPECT_TRUE(got.value == value);
    EXPECT_EQ(got.memgest, MemgestId(id));
  }
  harness.Settle();
  harness.Scrub();
}

// A member that lacks it asks for it, too: there may be no memory where it would be.
TEST(Get, AnEmptyValueIsGivenToAPeerThatFetchesIt) {
  ShardHarness harness;
  const Version version = harness.Run(harness.Put(kRep3, "k", "")).version;
  ASSERT_EQ(harness.shard().FindMemgest(kRep3)->heap().reserved_bytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const memgest::ValuePiece piece,
                       harness.shard().ReadValue(harness.HeadLine("k"), version, 0, 4096));
  EXPECT_EQ(piece.bytes, "");
  EXPECT_EQ(piece.value_length, 0u);
}

TEST(Get, V4WaitsForTheUncommittedVersionThatItSaw) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep1, "k", "old"));
  harness.SetFlow(true, false);
  const int put = harness.Put(kSrs21, "k", "new");
  const int get = harness.Get("k");
  harness.Turns(10);
  EXPECT_FALSE(harness.answered(get)) << "the older value is not the answer any more";
  harness.Settle();
  EXPECT_EQ(harness.answer(get).value, "new");
  EXPECT_EQ(harness.answer(get).version, harness.answer(put).version);
}

// V4: waiters hang on the key. A higher version that commits first answers them.
TEST(Get, V4AHigherVersionThatCommitsFirstAnswers) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int slow = harness.Put(kSrs32, "k", "slow");
  const int get = harness.Get("k");
  const int fast = harness.Put(kRep1, "k", "fast");
  harness.Turns(5);
  ASSERT_FALSE(harness.answered(slow));
  EXPECT_TRUE(harness.answered(fast));
  ASSERT_TRUE(harness.answered(get)) << "waits for one version alone";
  EXPECT_EQ(harness.answer(get).value, "fast");
  harness.Settle();
  harness.Scrub();
}

// V4: a stream of new versions above does not hold a get up for ever.
TEST(Get, V4IsAnsweredWhateverIsAppendedMeanwhile) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  const int first = harness.Put(kSrs32, "k", "first");
  harness.Turn();
  const int get = harness.Get("k");
  const int second = harness.Put(kSrs32, "k", "second");
  harness.member(3).Ack(1);
  harness.member(4).Ack(1);
  harness.Turn();
  ASSERT_TRUE(harness.answered(first));
  ASSERT_FALSE(harness.answered(second));
  ASSERT_TRUE(harness.answered(get));
  EXPECT_EQ(harness.answer(get).value, "first");
  harness.Settle();
  harness.Scrub();
}

// V4: a read that saw a version is never given a lower one, though one is committed.
TEST(Get, V4AReaderIsNotGivenLessThanItSaw) {
  ShardHarness harness;
  const Version old = harness.Run(harness.Put(kRep3, "k", "old")).version;
  const int first = harness.Get("k");
  ASSERT_EQ(harness.answer(first).version, old);
  harness.SetFlow(true, false);
  const int put = harness.Put(kRep3, "k", "seen");
  harness.Turn();
  Sent get;
  get.key = "k";
  get.request.operation = protocol::Operation::kGet;
  const Version seen(harness.shard().lines().line(harness.HeadLine("k")).version);
  get.request.min_version = seen;  // as one that waited already
  const int again = harness.Send(get);
  harness.Put(kRep3, "k", "later");
  harness.Turns(3);
  EXPECT_FALSE(harness.answered(again)) << "the older value is not the answer any more";
  harness.Settle();
  EXPECT_EQ(harness.answer(put).version, seen);
  EXPECT_GE(harness.answer(again).version, seen);
  harness.Scrub();
}

TEST(Get, V4ManyWaitersAreAnsweredInTheirOrder) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  harness.Put(kRep3, "k", "v");
  std::vector<int> gets;
  for (int i = 0; i < 20; ++i) gets.push_back(harness.Get("k"));
  harness.Turns(3);
  harness.Settle();
  std::vector<int> order;
  for (const int number : harness.order()) {
    if (number != 0) order.push_back(number);
  }
  EXPECT_EQ(order, gets);
  for (const int get : gets) EXPECT_EQ(harness.answer(get).value, "v");
}

// A version may take long to be committed, and a client asks as often as it likes.
TEST(Get, V4SoManyWaitForAVersionAndTheOthersAreTold) {
  constexpr int kAsked = 10'000;
  ShardHarness harness;
  harness.SetFlow(true, false);
  harness.Put(kRep3, "k", "v");
  std::vector<int> waiting;
  for (int i = 0; i < kAsked; ++i) {
    const int get = harness.Get("k");
    if (harness.answered(get)) {
      ASSERT_EQ(harness.outcome(get), Outcome::kUnavailable);
    } else {
      waiting.push_back(get);
    }
  }
  EXPECT_GT(waiting.size(), 1000u);
  EXPECT_LT(waiting.size(), 9000u) << "each is memory until the version is committed";
  harness.Settle();
  for (const int get : waiting) ASSERT_EQ(harness.answer(get).value, "v");
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "v") << "their places are free again";
}

// V8: two keys with one hash, in one shard.
TEST(Get, V8HashEqualityIsNotKeyEquality) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "one", "1"));
  Sent other;
  other.key = "two";
  other.request.operation = protocol::Operation::kGet;
  const int number = harness.Send(other);
  EXPECT_EQ(harness.outcome(number), Outcome::kNotFound);
  // As if "two" had the hash of "one": straight to the shard.
  Request forged = harness.sent(number).request;
  forged.hash = KeyHash("one", harness.shard().options().hash_seed);
  const int again = harness.Send(other);
  forged.reply.stamp = static_cast<std::uint32_t>(again);
  ASSERT_TRUE(harness.shard().Execute(forged));
  EXPECT_EQ(harness.outcome(again), Outcome::kNotFound);
  EXPECT_TRUE(harness.answer(again).value.empty());
}

// V7: what is answered is captured at the answer; a commit after it changes nothing of it.
TEST(Get, V7TheAnswerIsWhatWasCommittedWhenItWasCaptured) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep1, "k", "before"));
  harness.holds_sends = true;
  const int get = harness.Get("k");
  EXPECT_EQ(harness.answer(get).value, "before");
  harness.Put(kRep1, "k", "after!");
  harness.Turns(5);
  harness.FinishSends();  // compares the bytes
  harness.Settle();
  harness.Scrub();
}

// V6: a key that everybody reads at once. Pins are counted in 16 bits; more readers wait.
TEST(Get, V6MoreReadersThanPinsCanCount) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep1, "hot", "v"));
  const std::uint32_t line = harness.HeadLine("hot");
  harness.holds_sends = true;
  for (int i = 0; i < 0x10000; ++i) harness.Get("hot");
  EXPECT_GT(harness.shard().lines().line(line).pins, 0);
  harness.Put(kRep1, "hot", "w");
  harness.Turns(3);
  EXPECT_NE(harness.shard().lines().line(line).version, 0u) << "freed under the device";
  harness.Settle();
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
