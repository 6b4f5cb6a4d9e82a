// What would be left if the coordinator's memory vanished, read off the members' metadata while
// nothing fails: G6, X7.
#include <map>
#include <optional>

#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/support/random_seed.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;
using Check = memgest::CompletionTable::Check;

// The newest version of every key that some member holds; a tombstone has no CRC.
struct Left {
  std::uint64_t version = 0;
  std::optional<std::uint32_t> value_crc;
};
std::map<std::string, Left> WhatMembersHold(ShardHarness& harness) {
  std::map<std::string, Left> held;
  for (MemberTwin* const member : harness.members()) {
    memgest::LineTable& lines = member->shard().lines();
    for (std::uint32_t i = 0; i < lines.granule_count() * memgest::kLinesPerGranule; ++i) {
      if (!lines.Has(i) || lines.line(i).version == 0) continue;
      const memgest::MetadataLine& line = lines.line(i);
      Left& left = held[std::string(lines.Key(i))];
      if (line.version <= left.version) continue;
      left = {line.version, line.value_crc};
      if ((line.flags & memgest::kTombstone) != 0) left.value_crc.reset();
    }
  }
  return held;
}

Check Knows(MemberTwin& member, const ShardHarness& harness, int number) {
  const Sent& sent = harness.sent(number);
  memgest::CompletionTable& table = member.shard().completions();
  memgest::CompletionTable::Client* const client = table.Find(sent.client->id());
  memgest::CompletionRecord record;
  if (client == nullptr) return Check::kNew;
  return memgest::CompletionTable::Lookup(client, sent.request.seq, 0, RequestCrc(sent.request),
                                          &record);
}

bool AnyKnows(ShardHarness& harness, int number) {
  for (MemberTwin* const member : harness.members()) {
    if (Knows(*member, harness, number) != Check::kNew) return true;
  }
  return false;
}

// G6: the Rep(1) versions are what is missing at the members, all of them and nothing else. Every
// key falls back to its newest strong version: not to an older one, and not to one that was
// deleted, or given up by an explicit move.
TEST(Loss, G6MembersHoldTheNewestStrongVersionOfEveryKeyAndNothingNewer) {
  SeededRandom random(ring::testing::SeedFor("G6"));
  ShardHarness harness;
  struct Key {
    std::optional<std::string> value;   // what a get answers
    std::optional<std::string> strong;  // what is left of it without Rep(1)
    MemgestId memgest;
  };
  std::map<std::string, Key> model;
  for (int i = 0; i < 1500; ++i) {
    const std::string name = "k" + std::to_string(random.Below(20));
    Key& key = model[name];
    // Half of all in Rep(1): versions of both kinds alternate.
    const MemgestId memgest(
        static_cast<std::uint16_t>(random.Below(2) == 0 ? 0 : random.Below(kMemgestCount)));
    const std::uint64_t what = random.Below(6);
    if (what < 3) {
      const std::string value = Bytes(random.Below(300), random.Next64());
      ASSERT_EQ(harness.Run(harness.Put(memgest, name, value)).outcome, Outcome::kOk);
      key.value = value;
      key.memgest = memgest;
      if (memgest != kRep1) key.strong = value;
    } else if (what < 5) {
      const bool there = key.value.has_value();
      ASSERT_EQ(harness.Run(harness.Move(name, memgest)).outcome,
                there ? Outcome::kOk : Outcome::kNotFound);
      if (!there || key.memgest == memgest) continue;
      key.memgest = memgest;
      key.strong = memgest == kRep1 ? std::nullopt : key.value;
    } else {
      harness.Run(harness.Delete(name));
      key.value.reset();
      key.strong.reset();
    }
    if (random.Below(8) != 0) continue;
    harness.Settle();
    harness.Scrub();
    std::map<std::string, Left> held = WhatMembersHold(harness);
    for (const auto& [checked, state] : model) {
      const std::optional<std::uint32_t> left = held[checked].value_crc;
      ASSERT_EQ(left.has_value(), state.strong.has_value()) << checked << " after " << i;
      if (left.has_value()) {
        ASSERT_EQ(*left, Crc32c(state.strong->data(), state.strong->size())) << checked;
      }
    }
  }
}

// X7: nobody but the coordinator knows of a change in Rep(1). Of a delete all do: its tombstone is
// in another memgest.
TEST(Loss, X7OnlyTheCoordinatorHasRecordsOfChangesInRep1) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();  // stays under way, so that all records of the client stay
  const int weak_put = harness.Put(kRep1, "weak", "v", {.client = &client});
  harness.Run(weak_put);
  const int strong_put = harness.Put(kRep3, "strong", "v", {.client = &client});
  harness.Run(strong_put);
  const int coded_put = harness.Put(kSrs32, "coded", "v", {.client = &client});
  harness.Run(coded_put);
  const int strong_delete = harness.Delete("strong", {.client = &client});
  harness.Run(strong_delete);
  const int move = harness.Move("coded", kRep1, {.client = &client});
  harness.Run(move);
  harness.Settle();
  const int weak_delete = harness.Delete("weak", {.client = &client});
  harness.Run(weak_delete);
  const int refused = harness.Delete("weak", {.client = &client});
  ASSERT_EQ(harness.Run(refused).outcome, Outcome::kNotFound);
  harness.Settle();
  for (const int number : {weak_put, move, refused}) {
    EXPECT_FALSE(AnyKnows(harness, number)) << "request " << number;
  }
  EXPECT_TRUE(AnyKnows(harness, weak_delete));
  for (const int number : {strong_put, coded_put, strong_delete}) {
    for (const int role : {3, 4}) {
      EXPECT_EQ(Knows(harness.member(role), harness, number), Check::kDone) << "request " << number;
    }
  }
  harness.Scrub();
}

// X7: the log of the default memgest takes records of a memgest that is drained, but none of a
// version that is still there: the drain may be given up, and then Rep(1) may lose the version.
TEST(Loss, X7ADrainTakesNoRecordOfAVersionThatIsStillThere) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  const int put = harness.Put(kRep1, "k", "v", {.client = &client});
  harness.Run(put);
  harness.shard().SetMemgestState(kRep1, protocol::MemgestState::kDraining);
  for (int i = 0; i < 3; ++i) {
    const DrainCounts counts = harness.shard().Drain(kRep1, kRep3, nullptr);
    EXPECT_EQ(counts.versions, 1u);
    EXPECT_EQ(counts.records, 1u);
    harness.Settle();
  }
  harness.shard().SetMemgestState(kRep1, protocol::MemgestState::kActive);
  EXPECT_FALSE(AnyKnows(harness, put));
  // Without the version the record may go.
  harness.Run(harness.Move("k", kSrs32));
  harness.Settle();
  harness.shard().SetMemgestState(kRep1, protocol::MemgestState::kDraining);
  harness.shard().Drain(kRep1, kRep3, nullptr);
  harness.Settle();
  EXPECT_TRUE(AnyKnows(harness, put));
  harness.Scrub();
}

// X7: the records of a log that outlives nodes do not come to be in one that is lost with this
// node, the default memgest's or not; and stay where they are if every other is such a one.
TEST(Loss, X7ADrainMovesNoRecordIntoAWeakerLog) {
  ShardHarness harness;
  TestClient client(7);
  client.Take();
  harness.Run(harness.Put(kSrs32, "k", "v"));
  const int gone = harness.Delete("k", {.client = &client});
  harness.Run(gone);
  harness.Settle();
  ASSERT_TRUE(harness.Chain("k").empty());
  for (const MemgestId strong : {kRep2, kRep3, kRep4, kSrs21, kSrs31, kSrs32})
    harness.shard().SetMemgestState(strong, protocol::MemgestState::kDraining);
  EXPECT_EQ(harness.shard().Drain(kSrs32, kRep1, nullptr).records, 2u) << "they have nowhere to go";
  harness.Settle();
  harness.shard().SetMemgestState(kRep2, protocol::MemgestState::kActive);
  harness.shard().SetMemgestState(kRep4, protocol::MemgestState::kActive);
  EXPECT_EQ(harness.shard().Drain(kSrs32, kRep1, nullptr).records, 0u);
  harness.Settle();
  for (const int role : {3, 4}) {
    memgest::CompletionTable& records = harness.member(role).shard().completions();
    records.ForEach(
        [&](const memgest::ClientId& id, std::uint64_t, const memgest::CompletionRecord& record) {
          if (id != client.id()) return;
          EXPECT_EQ(record.memgest, kRep4.value()) << "f = 2, as of SRS(3,2)";
        });
    EXPECT_EQ(Knows(harness.member(role), harness, gone), Check::kDone) << "role " << role;
  }
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
