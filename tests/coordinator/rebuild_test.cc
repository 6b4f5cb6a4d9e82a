// New parities are sent what the shard holds, at the pace of recovery in the background (S6).
#include <algorithm>
#include <string>
#include <vector>

#include "memgest/size_class.h"
#include "ring/base/pace.h"
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

constexpr std::uint64_t kRate = 1 << 20;
constexpr std::uint64_t kSecondNs = 1'000'000'000;

// The parity of role 4 is sent all that the shard holds in SRS32, as a new one is. It has it, and
// counts nothing twice.
void BeginRebuild(ShardHarness& harness) {
  const Role role(4);
  memgest::Memgest& memgest = *harness.shard().FindMemgest(kSrs32);
  const std::uint64_t extent = memgest.rebuild().Begin(role);
  ASSERT_GT(extent, 0u);
  std::vector<NamedSet> sets = harness.LivingSets();
  for (NamedSet& set : sets) {
    if (set.memgest == kSrs32) set.incomplete = {{role, extent}};
  }
  harness.shard().ApplyNormal(sets);
}

protocol::Outcome PutOne(ShardHarness& harness, unsigned i) {
  return harness.Run(harness.Put(kSrs32, std::to_string(i), Bytes(8000, i))).outcome;
}

// Puts until no memory is left, and then frees every other slot.
void FillAndDeleteHalf(ShardHarness& harness) {
  unsigned count = 0;
  while (PutOne(harness, count) == protocol::Outcome::kOk) ASSERT_LT(++count, 4000u);
  for (unsigned i = 0; i < count; i += 2) harness.Run(harness.Delete(std::to_string(i)));
  harness.Settle();
}

TEST(Rebuild, S6ANewParityIsSentNoMoreThanThePaceAllows) {
  constexpr int kValues = 100;
  constexpr std::size_t kValueSize = 20'000;
  Pace pace(kRate, kRate);
  HarnessOptions options;
  options.pace = &pace;
  ShardHarness harness(options);
  for (int i = 0; i < kValues; ++i)
    harness.Run(harness.Put(kSrs32, std::to_string(i), Bytes(kValueSize, std::uint64_t(i))));
  harness.Settle();
  ASSERT_NO_FATAL_FAILURE(BeginRebuild(harness));
  const memgest::ParityRebuild& rebuild = harness.shard().FindMemgest(kSrs32)->rebuild();
  // What the bucket holds at first, and the piece that empties it.
  const std::uint64_t slack = kRate / 200 + memgest::kPayloadSizeMax;
  const std::uint64_t start_ns = harness.now_ns;
  std::uint64_t longest_wait_ns = 0;
  for (int i = 0; !rebuild.Complete(Role(4), harness.shard().log()); ++i) {
    ASSERT_LT(harness.now_ns - start_ns, 10 * kSecondNs) << "it does not end";
    if (i % 100 == 0) {  // puts do not wait for it
      const std::uint64_t asked_ns = harness.now_ns;
      EXPECT_EQ(harness.Run(harness.Put(kRep3, "k", "v")).outcome, protocol::Outcome::kOk);
      longest_wait_ns = std::max(longest_wait_ns, harness.now_ns - asked_ns);
    }
    harness.Turn();
    const double seconds = static_cast<double>(harness.now_ns - start_ns) / kSecondNs;
    ASSERT_LE(rebuild.pushed_bytes(), static_cast<std::uint64_t>(kRate * seconds) + slack);
  }
  EXPECT_GE(rebuild.pushed_bytes(), kValues * kValueSize);
  // It took what the pace says, and not much more.
  const double seconds = static_cast<double>(harness.now_ns - start_ns) / kSecondNs;
  EXPECT_LE(seconds, 1.2 * static_cast<double>(rebuild.pushed_bytes()) / kRate);
  EXPECT_LT(longest_wait_ns, 1'000'000u);
}

TEST(Rebuild, S6ItsProgressGrowsUntilItIsComplete) {
  Pace pace(kRate, kRate);
  HarnessOptions options;
  options.pace = &pace;
  ShardHarness harness(options);
  for (int i = 0; i < 50; ++i)
    harness.Run(harness.Put(kSrs32, std::to_string(i), Bytes(20'000, std::uint64_t(i))));
  harness.Settle();
  const memgest::ParityRebuild& rebuild = harness.shard().FindMemgest(kSrs32)->rebuild();
  EXPECT_TRUE(rebuild.progress().empty());
  ASSERT_NO_FATAL_FAILURE(BeginRebuild(harness));
  std::uint64_t last = 0;
  std::size_t steps = 0;
  while (!rebuild.Complete(Role(4), harness.shard().log())) {
    ASSERT_LT(harness.now_ns, 20 * kSecondNs);
    harness.Turn();
    ASSERT_EQ(rebuild.progress().size(), 1u);
    const memgest::ParityRebuild::Progress now = rebuild.progress()[0];
    EXPECT_EQ(now.role, Role(4));
    ASSERT_GE(now.sent_cells, last);
    ASSERT_LE(now.sent_cells, now.all_cells);
    steps += now.sent_cells > last ? 1 : 0;
    last = now.sent_cells;
  }
  EXPECT_EQ(last, rebuild.progress()[0].all_cells);
  EXPECT_GT(steps, 10u);
}

// F11: what a new parity does not have yet is given to nobody. A put that finds nothing else is
// told to come back, and what it waits for is sent as fast as it goes.
TEST(Rebuild, S6PutsThatFindNoMemoryHastenIt) {
  Pace pace(kRate, kRate);
  HarnessOptions options;
  options.pace = &pace;
  options.memory_limit = std::size_t{24} << 20;
  ShardHarness harness(options);
  ASSERT_NO_FATAL_FAILURE(FillAndDeleteHalf(harness));
  ASSERT_NO_FATAL_FAILURE(BeginRebuild(harness));
  const std::uint64_t start_ns = harness.now_ns;
  EXPECT_EQ(PutOne(harness, 0), protocol::Outcome::kUnavailable);
  const memgest::ParityRebuild& rebuild = harness.shard().FindMemgest(kSrs32)->rebuild();
  while (!rebuild.Complete(Role(4), harness.shard().log())) {
    ASSERT_LT(harness.now_ns - start_ns, kSecondNs) << rebuild.pushed_bytes();
    harness.Turn();
  }
  EXPECT_GT(rebuild.pushed_bytes(), 2 * kRate) << "the pace would have done";
  EXPECT_FALSE(rebuild.hurries());
  EXPECT_EQ(PutOne(harness, 0), protocol::Outcome::kOk);
}

// F11: a spare that has no memory for the metadata, say, fails to join again and again. What it was
// to be sent is not kept from others for it.
TEST(Rebuild, S6WhoFailsToJoinBarsNothing) {
  HarnessOptions options;
  options.memory_limit = std::size_t{24} << 20;
  ShardHarness harness(options);
  ASSERT_NO_FATAL_FAILURE(FillAndDeleteHalf(harness));
  std::vector<NamedSet> sets = harness.LivingSets();
  for (NamedSet& set : sets) set.roles &= ~RoleBit(Role(4));
  harness.shard().ApplyNormal(sets);
  ASSERT_GT(harness.shard().FindMemgest(kSrs32)->rebuild().Begin(Role(4)), 0u);
  ASSERT_EQ(PutOne(harness, 0), protocol::Outcome::kUnavailable);
  harness.shard().RemoveMember(Role(4));
  EXPECT_FALSE(harness.shard().FindMemgest(kSrs32)->rebuild().active());
  EXPECT_EQ(PutOne(harness, 0), protocol::Outcome::kOk);
}

}  // namespace
}  // namespace ring::coordinator
