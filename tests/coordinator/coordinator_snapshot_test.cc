// A coordinator as the source of a snapshot: it says what a member says that folded all that is
// committed.
#include "memgest/coordinator_snapshot.h"

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::coordinator {
namespace {

using memgest::SnapshotItem;

// One log of a snapshot.
struct LogState {
  std::uint64_t applied = 0;
  std::uint64_t end_cells = 0;
  std::map<std::uint32_t,
           std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, int, std::string, std::size_t>>
      lines;
  // (client, seq) -> version, outcome
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::pair<std::uint64_t, int>> done;
};
struct Decoded {
  std::map<std::uint16_t, LogState> logs;
  std::map<std::uint64_t, std::uint64_t> first_incomplete;
};

Decoded Decode(const std::vector<std::string>& pieces) {
  Decoded decoded;
  for (const std::string& piece : pieces) {
    absl::StatusOr<memgest::SnapshotReader> reader = memgest::SnapshotReader::Open(piece);
    RING_CHECK(reader.ok());
    SnapshotItem item;
    while (reader->Next(&item).value()) {
      LogState& log =
          decoded.logs[item.kind == SnapshotItem::Kind::kDone ? item.done.memgest
                                                              : item.log.memgest.value()];
      if (item.kind == SnapshotItem::Kind::kLog) {
        log.applied = item.log.applied;
        log.end_cells = item.log.end_cells;
      } else if (item.kind == SnapshotItem::Kind::kLine) {
        log.lines[item.number] = {item.line.version, item.line.value_crc,   item.line.value_length,
                                  item.line.flags,   std::string(item.key), item.ranges.size()};
      } else if (item.kind == SnapshotItem::Kind::kLines) {
        memgest::ForEachLine(item, [&log](std::uint32_t number, const auto& line) {
          log.lines[number] = {line.version,
                               line.value_crc,
                               line.value_length,
                               line.flags,
                               std::string(line.key, line.key_length),
                               0};
        });
      } else if (item.kind == SnapshotItem::Kind::kClient) {
        decoded.first_incomplete[item.client.high] = item.first_incomplete;
      } else if (item.kind == SnapshotItem::Kind::kDone) {
        log.done[{item.client.high, item.done.seq}] = {item.done.version, item.done.code};
      }
    }
  }
  return decoded;
}

struct Compared {
  int logs = 0;
  int with_uncommitted = 0;  // entries of the log at the coordinator
  int with_collecting = 0;   // versions on their way out
  int with_collected = 0;    // ... that a member may still have, though it is committed
};

std::vector<memgest::Memgest*> LogsOf(ShardHarness& harness) {
  std::vector<memgest::Memgest*> logs;
  for (const auto& memgest : harness.shard().memgests()) {
    if (memgest->members().empty()) continue;
    logs.push_back(memgest.get());
  }
  return logs;
}

// Compares each log with every member that has folded just what is committed.
void Compare(ShardHarness& harness, Compared* compared) {
  const std::vector<memgest::Memgest*> logs = LogsOf(harness);
  const Decoded ours = Decode(AllPieces(*harness.shard().TakeSnapshot(1, logs)));
  for (memgest::Memgest* const memgest : logs) {
    const MemgestId id = memgest->descriptor().id;
    const LogState& own = ours.logs.at(id.value());
    for (const Role role : memgest->descriptor().MemberRoles(ShardId(0), 3, 2)) {
      memgest::MemberShard& member = harness.member(role.value()).shard();
      if (member.applied(id) != own.applied) continue;
      const Decoded theirs =
          Decode(AllPieces(*member.TakeSnapshot(1, absl::MakeConstSpan(&id, 1))));
      LogState other = theirs.logs.at(id.value());
      ASSERT_EQ(other.lines, own.lines) << memgest->descriptor().name << " at " << own.applied;
      EXPECT_LE(other.end_cells, own.end_cells);
      // A request that changed nothing may have told the coordinator alone what is answered.
      std::erase_if(other.done, [&](const auto& one) {
        return one.first.second < ours.first_incomplete.at(one.first.first);
      });
      EXPECT_EQ(other.done, own.done) << memgest->descriptor().name;
      ++compared->logs;
      if (own.applied + 1 != memgest->next_index()) ++compared->with_uncommitted;
      if (!memgest->to_collect().empty() || !memgest->collecting().empty()) {
        ++compared->with_collecting;
      }
      for (std::size_t i = 0; i < memgest->collecting().size(); ++i) {
        if (!harness.shard().log().IsCommitted(memgest->collecting()[i].order)) continue;
        ++compared->with_collected;
        break;
      }
    }
  }
}

// A turn in which something happens.
void RandomTurn(ShardHarness& harness, SeededRandom& random, std::uint64_t key_count) {
  const std::string key = "key " + std::to_string(random.Below(key_count));
  const MemgestId memgest(static_cast<std::uint16_t>(random.Below(kMemgestCount)));
  for (std::uint64_t n = random.Below(3); n > 0; --n) {
    switch (random.Below(5)) {
      case 0:
        harness.Delete(key);
        break;
      case 1:
        harness.Move(key, memgest);
        break;
      case 2:
        harness.Get(key);
        break;
      default:
        harness.Put(memgest, key, Bytes(random.Below(3000), random.Next64()));
    }
  }
  if (random.Below(8) == 0) harness.SetFlow(random.Below(4) > 0, random.Below(3) > 0);
  if (random.Below(4) == 0) {  // one that is behind: what is committed is not acted upon yet (G2)
    MemberTwin& slow = harness.member(3 + static_cast<int>(random.Below(2)));
    slow.acks = random.Below(2) > 0;
  }
  if (random.Below(8) == 0) harness.holds_sends = !harness.holds_sends;
  if (!harness.holds_sends) harness.FinishSends();
  harness.Turn();
}

TEST(CoordinatorSnapshot, SaysWhatAMemberSaysThatFoldedAllThatIsCommitted) {
  SeededRandom random(ring::testing::SeedFor("coordinator snapshot"));
  Compared compared;
  for (int run = 0; run < 4; ++run) {
    ShardHarness harness;
    for (int turn = 0; turn < 400; ++turn) {
      RandomTurn(harness, random, 40);
      Compare(harness, &compared);
      if (::testing::Test::HasFatalFailure()) return;
    }
    harness.holds_sends = false;
    harness.SetFlow(true, true);
    harness.Settle();
    Compare(harness, &compared);
  }
  EXPECT_GT(compared.logs, 500);
  EXPECT_GT(compared.with_uncommitted, 20) << "uncommitted lines are still to come";
  EXPECT_GT(compared.with_collecting, 20);
  EXPECT_GT(compared.with_collected, 20);
}

// While its pieces are taken the shard goes on: it commits, collects, and uses lines again.
TEST(CoordinatorSnapshot, L7IsOneStateHoweverLongItTakes) {
  SeededRandom random(ring::testing::SeedFor("coordinator snapshot bit by bit"));
  int changed = 0;
  for (int run = 0; run < 6; ++run) {
    ShardHarness harness;
    for (int i = 0; i < 3000; ++i) {
      harness.Put(i % 2 == 0 ? kRep3 : kSrs21, "key " + std::to_string(i) + std::string(60, 'k'),
                  "v");
      if (i % 8 == 0) harness.Turn();
    }
    for (int turn = 0; turn < 50; ++turn) RandomTurn(harness, random, 3000);
    const std::vector<memgest::Memgest*> logs = LogsOf(harness);
    const std::shared_ptr<memgest::SnapshotCursor> slow = harness.shard().TakeSnapshot(2, logs);
    const Decoded at_once = Decode(AllPieces(*harness.shard().TakeSnapshot(2, logs)));
    std::vector<std::string> pieces;
    for (bool more = true; more;) {
      ASSERT_OK_AND_ASSIGN(memgest::SnapshotPiece piece, slow->Next());
      pieces.push_back(std::move(piece.bytes));
      more = !piece.last;
      for (int turn = 0; turn < 20; ++turn) RandomTurn(harness, random, 3000);
    }
    EXPECT_GT(pieces.size(), 3u);
    const Decoded in_pieces = Decode(pieces);
    EXPECT_EQ(in_pieces.first_incomplete, at_once.first_incomplete);
    ASSERT_EQ(in_pieces.logs.size(), at_once.logs.size());
    for (const auto& [id, log] : at_once.logs) {
      const LogState& own = in_pieces.logs.at(id);
      EXPECT_EQ(own.applied, log.applied) << id;
      EXPECT_EQ(own.end_cells, log.end_cells) << id;
      EXPECT_TRUE(own.lines == log.lines) << id << ": " << own.lines.size() << " lines";
      EXPECT_EQ(own.done, log.done) << id;
    }
    const Decoded now = Decode(AllPieces(*harness.shard().TakeSnapshot(3, LogsOf(harness))));
    for (const auto& [id, log] : at_once.logs) changed += now.logs.at(id).lines != log.lines;
    harness.holds_sends = false;
    harness.SetFlow(true, true);
    harness.Settle();
  }
  EXPECT_GT(changed, 6) << "the shard went on meanwhile";
}

// Of each granule that is in the snapshot, its memgest.
std::map<std::uint32_t, std::uint16_t> GranulesOf(const std::vector<std::string>& pieces) {
  std::map<std::uint32_t, std::uint16_t> granules;
  for (const std::string& piece : pieces) {
    absl::StatusOr<memgest::SnapshotReader> reader = memgest::SnapshotReader::Open(piece);
    RING_CHECK(reader.ok());
    SnapshotItem item;
    while (reader->Next(&item).value()) {
      if (item.kind == SnapshotItem::Kind::kGranule)
        granules[item.number] = item.log.memgest.value();
    }
  }
  return granules;
}

// G10: its memgest is deleted meanwhile, and one that the snapshot does not know uses it.
TEST(CoordinatorSnapshot, L7AGranuleThatChangesHandsStaysWhatItWas) {
  ShardHarness harness;
  for (int i = 0; i < 300; ++i) harness.Run(harness.Put(kSrs32, "k" + std::to_string(i), "v"));
  for (int i = 0; i < 300; ++i) harness.Run(harness.Delete("k" + std::to_string(i)));
  harness.Settle();
  harness.shard().SetMemgestState(kSrs32, protocol::MemgestState::kDraining);
  while (harness.shard().Drain(kSrs32, kRep3, nullptr).records > 0) harness.Settle();
  std::vector<memgest::Memgest*> logs;
  for (const MemgestId id : {kRep3, kSrs32}) logs.push_back(harness.shard().FindMemgest(id));
  const std::shared_ptr<memgest::SnapshotCursor> slow = harness.shard().TakeSnapshot(2, logs);
  const auto at_once = GranulesOf(AllPieces(*harness.shard().TakeSnapshot(2, logs)));
  ASSERT_GE(at_once.size(), 5u);
  harness.RemoveMemgest(kSrs32);
  for (int i = 0; i < 300; ++i) harness.Run(harness.Put(kRep2, "k" + std::to_string(i), "v"));
  harness.Settle();
  const std::uint32_t line = harness.HeadLine("k0") & ~(memgest::kLinesPerGranule - 1);
  ASSERT_EQ(at_once.count(line), 1u) << "the granule is used again";
  EXPECT_EQ(GranulesOf(AllPieces(*slow)), at_once);
}

TEST(CoordinatorSnapshot, L7EndsWithTheEpoch) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "key", "value"));
  harness.Settle();
  const std::shared_ptr<memgest::SnapshotCursor> left =
      harness.shard().TakeSnapshot(1, LogsOf(harness));
  harness.shard().Retire();
  EXPECT_THAT(left->Next(), ring::testing::StatusIs(absl::StatusCode::kAborted));
}

TEST(CoordinatorSnapshot, V6ACollectedVersionThatIsPinnedIsGone) {
  ShardHarness harness;
  harness.Run(harness.Put(kRep3, "key", "old"));
  harness.Settle();
  harness.holds_sends = true;
  harness.Run(harness.Get("key"));
  harness.Run(harness.Put(kRep3, "key", "new"));
  harness.Turns(50);
  EXPECT_EQ(harness.LiveLines(), 2u) << "the old one is pinned";
  Compared compared;
  Compare(harness, &compared);
  EXPECT_GT(compared.logs, 0);
  memgest::Memgest* const memgest = harness.shard().FindMemgest(kRep3);
  const Decoded decoded =
      Decode(AllPieces(*harness.shard().TakeSnapshot(1, absl::MakeConstSpan(&memgest, 1))));
  EXPECT_EQ(decoded.logs.at(kRep3.value()).lines.size(), 1u);
  harness.holds_sends = false;
  harness.FinishSends();
  harness.Settle();
}

}  // namespace
}  // namespace ring::coordinator
