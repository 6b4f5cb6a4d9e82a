// move: G7, G8, G9, V6, I4.
#include <algorithm>

#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

TEST(Move, KeepsTheValueBetweenEveryPairOfMemgests) {
  ShardHarness harness;
  for (std::uint16_t from = 0; from < kMemgestCount; ++from) {
    for (std::uint16_t to = 0; to < kMemgestCount; ++to) {
      const std::string key = std::to_string(from) + "-" + std::to_string(to);
      const std::string value = Bytes(1000u + 10u * from + to, from * 7u + to);
      harness.Run(harness.Put(MemgestId(from), key, value));
      EXPECT_EQ(harness.Run(harness.Move(key, MemgestId(to))).outcome, Outcome::kOk);
      const Answered& got = harness.Run(harness.Get(key));
      EXPECT_TRUE(got.value == value) << key;
      EXPECT_EQ(got.memgest, MemgestId(to));
    }
  }
  harness.Settle();
  harness.Scrub();
}

// S10: what lies in one slot on one side lies in many blocks on the other; no piece crosses a block
// of either.
TEST(Move, S10KeepsTheValueBetweenEveryPairOfBlockSizes) {
  constexpr std::uint32_t kSmall = 4 << 10;
  constexpr std::uint32_t kMiddle = 256 << 10;
  constexpr std::uint32_t kLarge = 2 << 20;
  HarnessOptions options;
  options.block_sizes = {
      {kRep2.value(), kSmall},  {kRep3.value(), kMiddle},  {kRep4.value(), kLarge},
      {kSrs21.value(), kSmall}, {kSrs31.value(), kMiddle}, {kSrs32.value(), kLarge},
  };
  ShardHarness harness(options);
  std::uint64_t tag = 0;
  for (const auto& [from, from_block] : options.block_sizes) {
    for (const auto& [to, to_block] : options.block_sizes) {
      const std::uint32_t block = std::min(from_block, to_block);
      for (const std::uint32_t size : {block - 1, block, block + 1, block + block / 2 + 3,
                                       2 * block, 65535u, 65536u, 65537u}) {
        const std::string value = Bytes(size, ++tag);
        ASSERT_EQ(harness.Run(harness.Put(MemgestId(from), "k", value, {.large = true})).outcome,
                  Outcome::kOk);
        ASSERT_EQ(harness.Run(harness.Move("k", MemgestId(to))).outcome, Outcome::kOk)
            << "from=" << from << " to=" << to << " size=" << size;
        const Answered& got = harness.Run(harness.Get("k"));
        ASSERT_TRUE(got.value == value) << "from=" << from << " to=" << to << " size=" << size;
        ASSERT_EQ(got.memgest, MemgestId(to));
      }
    }
  }
  harness.Settle();
  harness.Scrub();
}

// G7: the put that comes while the move waits must not be undone by it.
TEST(Move, G7CopiesTheHighestVersionNotTheOneItWaitedFor) {
  ShardHarness harness;
  harness.SetFlow(true, false);
  harness.Put(kSrs32, "k", "first");
  const int move = harness.Move("k", kRep1);
  harness.Turn();
  const int second = harness.Put(kSrs32, "k", "second");
  harness.member(3).Ack(1);
  harness.member(4).Ack(1);
  harness.Turn();
  EXPECT_FALSE(harness.answered(move)) << "copied a version that is not the highest";
  harness.Settle();
  EXPECT_EQ(harness.outcome(move), Outcome::kOk);
  EXPECT_GT(harness.answer(move).version, harness.answer(second).version);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "second");
  harness.Settle();
  harness.Scrub();
}

// G7 for a move that takes many turns: a put in between is not lost.
TEST(Move, G7APutDuringALargeMoveIsNotLost) {
  for (int turns = 0; turns < 8; ++turns) {
    ShardHarness harness;
    harness.Run(harness.Put(kRep3, "k", Bytes(400'000, 1), {.large = true}));
    harness.Settle();
    const int move = harness.Move("k", kSrs32);
    for (int i = 0; i < turns; ++i) harness.Turn();
    const bool before = harness.answered(move);
    harness.Put(kRep2, "k", "put in between");
    harness.Run(move);
    harness.Settle();
    EXPECT_EQ(harness.outcome(move), Outcome::kOk);
    const Answered& got = harness.Run(harness.Get("k"));
    EXPECT_EQ(got.value, "put in between") << turns;
    if (!before && harness.answer(move).version == got.version) {
      EXPECT_EQ(got.memgest, kSrs32);
    }
    harness.Settle();
    harness.Scrub();
  }
}

TEST(Move, G7ADeleteDuringALargeMoveMakesItNotFound) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", Bytes(400'000, 1), {.large = true}));
  const int move = harness.Move("k", kSrs32);
  harness.Turns(2);
  ASSERT_FALSE(harness.answered(move));
  harness.Delete("k");
  EXPECT_EQ(harness.Run(move).outcome, Outcome::kNotFound);
  harness.Settle();
  EXPECT_EQ(harness.LiveLines(), 0u);
  harness.Scrub();
}

// G7: the key is deleted and forgotten altogether, tombstone and all, before the move's last part.
TEST(Move, G7AKeyThatIsGoneBeforeALargeMoveEndsIsNotFound) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep2, "k", Bytes(4'000'000, 1), {.large = true}));
  harness.Settle();
  const int move = harness.Move("k", kSrs32);
  harness.Turn();
  harness.Run(harness.Delete("k"));
  for (int i = 0; i < 20 && !harness.Chain("k").empty(); ++i) harness.Turn(2'000'000);
  ASSERT_EQ(harness.HeadLine("k"), memgest::kNoLine);
  ASSERT_FALSE(harness.answered(move));
  harness.Settle();
  EXPECT_EQ(harness.outcome(move), Outcome::kNotFound);
  EXPECT_EQ(harness.LiveLines(), 0u);
  harness.Scrub();
}

// G8: the source lives until the copy is committed.
TEST(Move, G8TheSourceIsCollectedOnlyAfterTheDestinationsCommit) {
  ShardHarness harness;
  const Version source = harness.Run(harness.Put(kRep3, "k", "v")).version;
  harness.member(3).acks = false;
  const int move = harness.Move("k", kSrs21);
  for (int i = 0; i < 30; ++i) harness.Turn(2'000'000);
  ASSERT_FALSE(harness.answered(move));
  ASSERT_EQ(harness.Chain("k").size(), 2u);
  EXPECT_EQ(harness.Chain("k")[1], source);
  EXPECT_TRUE(harness.shard().FindMemgest(kRep3)->to_collect().empty());
  EXPECT_TRUE(harness.shard().FindMemgest(kRep3)->collecting().empty());
  harness.Settle();
  EXPECT_EQ(harness.Chain("k").size(), 1u);
  harness.Scrub();
}

TEST(Move, G9ToTheSameMemgestMakesNoVersion) {
  ShardHarness harness;
  const Version version = harness.Run(harness.Put(kSrs31, "k", "v")).version;
  const std::uint64_t index = harness.shard().FindMemgest(kSrs31)->next_index();
  const Answered& move = harness.Run(harness.Move("k", kSrs31));
  EXPECT_EQ(move.outcome, Outcome::kOk);
  EXPECT_EQ(move.version, version);
  EXPECT_EQ(move.memgest, kSrs31);
  EXPECT_EQ(harness.shard().FindMemgest(kSrs31)->next_index(), index);
}

TEST(Move, G9OfAMissingKeyOrATombstoneIsNotFoundAndWritesNothing) {
  ShardHarness harness;
  EXPECT_EQ(harness.Run(harness.Move("k", kRep3)).outcome, Outcome::kNotFound);
  harness.Run(harness.Put(kRep3, "k", "v"));
  harness.member(4).acks = false;  // keeps the tombstone's collections under way
  harness.Run(harness.Delete("k"));
  ASSERT_FALSE(harness.Chain("k").empty());
  const std::uint64_t index = harness.shard().FindMemgest(kSrs21)->next_index();
  EXPECT_EQ(harness.Run(harness.Move("k", kSrs21)).outcome, Outcome::kNotFound);
  EXPECT_EQ(harness.shard().FindMemgest(kSrs21)->next_index(), index);
  harness.Settle();
  harness.Scrub();
}

// V6: the source of a large move is collected meanwhile; its bytes stay until the move lets go.
TEST(Move, V6TheSourceOfALargeMoveStaysWhileItIsRead) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep1, "k", Bytes(600'000, 1), {.large = true}));
  const std::uint32_t source = harness.HeadLine("k");
  const int move = harness.Move("k", kSrs32);
  harness.Turns(2);
  ASSERT_FALSE(harness.answered(move));
  harness.Put(kRep1, "k", "newer");  // commits at once: the source is collected
  harness.Turn();
  EXPECT_NE(harness.shard().lines().line(source).version, 0u);
  EXPECT_GT(harness.shard().lines().line(source).pins, 0);
  harness.Run(move);
  harness.Settle();
  EXPECT_EQ(harness.shard().lines().line(source).version, 0u);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "newer");
  harness.Settle();
  harness.Scrub();
}

// I4: bytes that changed by themselves do not spread.
TEST(Move, I4OfDamagedBytesIsRefused) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "k", Bytes(1000, 1)));
  const std::uint32_t line = harness.HeadLine("k");
  std::byte* const bytes = harness.shard().FindMemgest(kRep3)->heap().At(
      harness.shard().lines().line(line).offset_cells);
  for (const MemgestId target : {kRep1, kSrs32}) {
    bytes[500] ^= std::byte{1};
    EXPECT_EQ(harness.Run(harness.Move("k", target)).outcome, Outcome::kDataLost);
    bytes[500] ^= std::byte{1};
  }
  EXPECT_EQ(harness.Run(harness.Move("k", kSrs32)).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// Small values and large ones; the members that would take over know it as well.
TEST(Move, V10KeepsTheExpiry) {
  ShardHarness harness;
  for (const std::uint32_t size : {100u, 300000u}) {
    const std::string value = Bytes(size, size);
    ASSERT_EQ(harness.Run(harness.Put(kRep1, "k", value, {.large = size > 65536})).outcome,
              Outcome::kOk);
    constexpr std::uint64_t kExpiryNs = 123'456'789'000;
    harness.shard().lines().line(harness.HeadLine("k")).expiry_ns = kExpiryNs;
    for (const MemgestId to : {kRep3, kSrs32}) {
      ASSERT_EQ(harness.Run(harness.Move("k", to)).outcome, Outcome::kOk);
      harness.Settle();
      const std::uint32_t line = harness.HeadLine("k");
      EXPECT_EQ(harness.shard().lines().line(line).expiry_ns, kExpiryNs);
      EXPECT_EQ(harness.member(3).shard().lines().line(line).expiry_ns, kExpiryNs);
    }
  }
}

}  // namespace
}  // namespace ring::coordinator
