#include "memgest/member_shard.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/size_class.h"
#include "ring/protocol/memgest_descriptor.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr MemgestId kRep{2};
constexpr MemgestId kOther{3};
constexpr ClientId kClient{11, 12};
const std::string& LongKey() {
  static const std::string key(100, 'k');
  return key;
}

protocol::MemgestDescriptor Replicated(MemgestId id) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = id;
  descriptor.r = 3;
  descriptor.block_size = 4096;
  return descriptor;
}

EntryFields Fields(EntryType type, std::uint64_t index, MemgestId memgest = kRep) {
  EntryFields fields;
  fields.type = type;
  fields.memgest = memgest;
  fields.index = index;
  fields.version = Version(Epoch(3), index);
  return fields;
}

class MemberShardTest : public ::testing::Test {
 protected:
  MemberShardTest() { Start(); }

  void Start() {
    ring_ = std::make_unique<EntryRing>();
    member_.Attach(ring_->MakeReader());
    member_.AddReplica(Replicated(kRep));
  }
  // A value into slot `line` of class 2 (128 bytes), in granule 0.
  EntryFields Put(std::uint64_t index, std::uint32_t line, absl::string_view key = "key") {
    EntryFields fields = Fields(EntryType::kPut, index);
    fields.line = line;
    fields.size_class = 2;
    fields.offset_cells = line * 2;
    fields.key = key;
    return fields;
  }
  void Append(EntryFields fields, const std::string& value = "") {
    if (fields.type == EntryType::kPut) {
      fields.value_length = static_cast<std::uint32_t>(value.size());
    }
    ring_->Append(fields, value.data(), value.size());
  }
  absl::StatusOr<int> CommitAndFold(int budget = 1000) {
    ring_->Commit();
    return member_.Fold(budget);
  }
  std::string Bytes(std::uint32_t offset_cells, std::size_t size, MemgestId id = kRep) {
    const HeapSpace* heap = member_.replica_heap(id);
    return std::string(reinterpret_cast<const char*>(heap->At(offset_cells)), size);
  }

  TwinDevice device_;
  std::unique_ptr<EntryRing> ring_;
  MemberShard member_{&device_, GroupId(1), ShardId(0), 1u << 16};
};

TEST_F(MemberShardTest, APutBecomesBytesAndAMetadataLine) {
  EntryFields fields = Put(1, 5, LongKey());
  fields.value_crc = 77;
  fields.expiry_ns = 123456789;
  fields.flags = kExplicitMove;
  Append(fields, "the value");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  const MetadataLine& line = member_.lines().line(5);
  EXPECT_EQ(line.version, Version(Epoch(3), 1).bits());
  EXPECT_EQ(line.value_crc, 77u);
  EXPECT_EQ(line.value_length, 9u);
  EXPECT_EQ(line.expiry_ns, 123456789u);
  EXPECT_EQ(line.offset_cells, 10u);
  EXPECT_EQ(line.prev, kNoLine);
  EXPECT_EQ(line.memgest, kRep.value());
  EXPECT_EQ(line.size_class, 2);
  EXPECT_EQ(line.flags, kLive | kCommitted | kExplicit);
  EXPECT_TRUE(member_.lines().KeyEquals(5, LongKey()));
  EXPECT_EQ(Bytes(10, 9), "the value");
  EXPECT_EQ(member_.applied(kRep), 1u);
}

TEST_F(MemberShardTest, E9NothingAboveTheCommitPositionIsFolded) {
  Append(Put(1, 0), "one");
  const std::uint64_t first = ring_->position();
  Append(Put(2, 1), "two");
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(0));
  ring_->CommitTo(first);
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_EQ(member_.applied(kRep), 1u);
  EXPECT_EQ(member_.lines().line(1).version, 0u);
  EXPECT_EQ(member_.reader()->folded_position(), first);
}

TEST_F(MemberShardTest, FoldsNoMoreThanItsBudget) {
  for (std::uint32_t i = 0; i < 20; ++i) Append(Put(i + 1, i), "x");
  EXPECT_THAT(CommitAndFold(7), IsOkAndHolds(7));
  EXPECT_EQ(member_.applied(kRep), 7u);
  EXPECT_THAT(CommitAndFold(100), IsOkAndHolds(13));
}

TEST_F(MemberShardTest, G2ASlotIsReusedOnlyBehindItsCollection) {
  Append(Put(1, 0), "one");
  EntryFields collect = Fields(EntryType::kCollect, 2);
  const CollectItem item{Version(Epoch(3), 1).bits(), 0};
  collect.collect = absl::MakeConstSpan(&item, 1);
  Append(collect);
  Append(Put(3, 0), "three");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(3));
  EXPECT_EQ(member_.lines().line(0).version, Version(Epoch(3), 3).bits());
  EXPECT_EQ(Bytes(0, 5), "three");
  // Without it the member fails, for good, and keeps what it has.
  Append(Put(4, 0), "four");
  EXPECT_THAT(CommitAndFold(), StatusIs(kDataLoss));
  EXPECT_EQ(Bytes(0, 5), "three");
  EXPECT_EQ(member_.applied(kRep), 3u);
  EXPECT_THAT(member_.Fold(1), StatusIs(kDataLoss));
}

TEST_F(MemberShardTest, G2AnEntryCannotUseTheSlotThatItCollects) {
  Append(Put(1, 0), "one");
  EntryFields fields = Put(2, 0);
  const CollectItem item{Version(Epoch(3), 1).bits(), 0};
  fields.collect = absl::MakeConstSpan(&item, 1);
  Append(fields, "two");
  ring_->Commit();
  EXPECT_THAT(member_.Fold(1), IsOkAndHolds(1));
  EXPECT_THAT(member_.Fold(1), StatusIs(kDataLoss));
  EXPECT_EQ(Bytes(0, 3), "one");
}

TEST_F(MemberShardTest, G2AnEntryCollectsSixteenVersionsOfItsLog) {
  std::vector<CollectItem> items;
  for (std::uint32_t i = 0; i < 16; ++i) {
    Append(Put(i + 1, i, LongKey()), "x");
    items.push_back({Version(Epoch(3), i + 1).bits(), i});
  }
  EntryFields fields = Put(17, 16);
  fields.collect = items;
  Append(fields, "y");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(17));
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(member_.lines().line(i).version, 0u);
  EXPECT_EQ(member_.lines().granule(0).taken, std::uint64_t{1} << 16);
}

TEST_F(MemberShardTest, AReleaseGivesAReplicasPagesBack) {
  const std::string page(4096, 'p');
  for (std::uint32_t i = 0; i < 3; ++i) {
    EntryFields fields = Put(i + 1, 64 * i);
    fields.size_class = ClassOf(4096);
    fields.offset_cells = 64 * i;
    Append(fields, page);
  }
  EntryFields release;
  release.type = EntryType::kRelease;
  release.memgest = kRep;
  release.index = 4;
  release.offset_cells = 64;
  release.value_length = 4096;
  Append(release);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(4));
  EXPECT_EQ(Bytes(0, 4096), page);
  EXPECT_EQ(Bytes(64, 4096), std::string(4096, '\0'));
  EXPECT_EQ(Bytes(128, 4096), page);
  EXPECT_EQ(device_.discarded, 4096u);
  EXPECT_EQ(member_.applied(kRep), 4u);
}

// What names memory that was never here must not take some, least of all where there is none left.
TEST_F(MemberShardTest, AReleaseOfMemoryThatIsNotHereTakesNone) {
  Append(Put(1, 0), "v");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  device_.limit = device_.reserved;
  EntryFields release;
  release.type = EntryType::kRelease;
  release.memgest = kRep;
  release.index = 2;
  release.offset_cells = 5 * HeapSpace::kChunkCells;
  release.value_length = 4096;
  Append(release);
  EXPECT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(device_.reserved, device_.limit);
  EXPECT_EQ(member_.applied(kRep), 2u);
}

TEST_F(MemberShardTest, AReleaseOfPartsOfPagesOrWithAPayloadIsDataLoss) {
  struct Case {
    std::uint32_t offset_cells, value_length;
    std::string payload;
  };
  const std::vector<Case> wrong = {{0, 0, ""},     {0, 64, ""},
                                   {32, 4096, ""}, {0xffffffc0, 8192, ""},
                                   {0, 4096, "1"}, {0, 4096, std::string(4096, '1')}};
  for (const Case& one : wrong) {
    EntryRing ring;
    MemberShard member(&device_, GroupId(1), ShardId(0), 1u << 16);
    member.AddReplica(Replicated(kRep));
    member.Attach(ring.MakeReader());
    EntryFields release;
    release.type = EntryType::kRelease;
    release.memgest = kRep;
    release.index = 1;
    release.offset_cells = one.offset_cells;
    release.value_length = one.value_length;
    ring.Append(release, one.payload.data(), one.payload.size());
    ring.Commit();
    EXPECT_THAT(member.Fold(1), StatusIs(kDataLoss)) << one.offset_cells << " " << one.value_length;
    EXPECT_EQ(member.applied(kRep), 0u);
  }
}

TEST_F(MemberShardTest, ACollectionOfAnotherVersionIsDataLossAndHasNoEffect) {
  const std::uint64_t first = Version(Epoch(3), 1).bits();
  const std::vector<std::vector<CollectItem>> wrong = {
      {{first, 0}, {first + 1, 1}},    // the second line holds another version
      {{first, 0}, {first, 0}},        // twice
      {{first, 0}, {first, 900}},      // a line that nobody knows
      {{first, 0}, {first, kNoLine}},  //
      {{first, 0}, {0, 7}},            // a free line
  };
  for (const std::vector<CollectItem>& items : wrong) {
    EntryRing ring;
    MemberShard member(&device_, GroupId(1), ShardId(0), 1u << 16);
    member.AddReplica(Replicated(kRep));
    member.Attach(ring.MakeReader());
    ring.Append(Put(1, 0), nullptr, 0);
    ring.Append(Put(2, 2), nullptr, 0);
    EntryFields fields = Put(3, 1);
    fields.collect = items;
    ring.Append(fields, "z", 1);
    ring.Commit();
    EXPECT_THAT(member.Fold(2), IsOkAndHolds(2));
    EXPECT_THAT(member.Fold(1), StatusIs(kDataLoss));
    EXPECT_EQ(member.lines().line(0).version, first);
    EXPECT_EQ(member.lines().line(1).version, 0u);
    EXPECT_EQ(member.applied(kRep), 2u);
  }
}

TEST_F(MemberShardTest, S14AnOlderVersionKeepsItsBytesUntilItIsCollected) {
  Append(Put(1, 0, "k"), "old");
  Append(Put(2, 1, "k"), "new");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(2));
  EXPECT_EQ(Bytes(0, 3), "old");
  EXPECT_EQ(Bytes(2, 3), "new");
  EXPECT_TRUE(member_.lines().KeyEquals(0, "k"));
  EXPECT_TRUE(member_.lines().KeyEquals(1, "k"));
}

TEST_F(MemberShardTest, S10PartsAreInvisibleUntilFinalAndSmallPutsGoBetween) {
  const std::string bytes(64 * 1024, 'p');
  const Range ranges[] = {{32768 - 512, 512}, {32768, 1024}, {4096, 512}};
  EntryFields part = Fields(EntryType::kPart, 1);
  part.offset_cells = ranges[0].offset_cells;
  Append(part, bytes.substr(0, 32768));
  Append(Put(2, 0), "small");
  part.index = 3;
  part.offset_cells = ranges[1].offset_cells;
  Append(part, bytes);
  part.index = 4;
  part.offset_cells = ranges[2].offset_cells;
  Append(part, bytes.substr(0, 1000));
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(4));
  EXPECT_EQ(member_.lines().line(64).version, 0u) << "visible before FINAL";
  EntryFields final = Fields(EntryType::kFinal, 5);
  final.key = "large";
  final.line = 64;
  final.value_length = 32768 + 65536 + 1000;
  final.ranges = ranges;
  Append(final);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(member_.lines().line(64).flags, kLive | kCommitted | kLarge);
  ASSERT_EQ(member_.lines().Ranges(64).size(), 3u);
  EXPECT_EQ(member_.lines().Ranges(64)[1].offset_cells, 32768u);
  EXPECT_EQ(Bytes(32768, 65536), bytes);
  EXPECT_EQ(Bytes(4096, 1000), bytes.substr(0, 1000));
  EXPECT_EQ(Bytes(0, 5), "small");
}

TEST_F(MemberShardTest, ATombstoneIsALineWithoutSlot) {
  EntryFields fields = Fields(EntryType::kTombstone, 1);
  fields.line = 70;
  fields.key = "gone";
  Append(fields);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(member_.lines().line(70).flags, kLive | kCommitted | kTombstone);
}

TEST_F(MemberShardTest, X2TheRecordIsTransferredByFoldAndOutlivesTheVersion) {
  EntryFields fields = Put(1, 0);
  fields.client = kClient;
  fields.seq = 40;
  fields.incomplete_delta = 3;
  fields.request_crc = 5;
  fields.result_code = 0;
  Append(fields, "one");
  EntryFields collect = Fields(EntryType::kCollect, 2);
  const CollectItem item{Version(Epoch(3), 1).bits(), 0};
  collect.collect = absl::MakeConstSpan(&item, 1);
  Append(collect);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(2));
  EXPECT_EQ(member_.lines().line(0).version, 0u);
  CompletionTable::Client* client = member_.completions().Find(kClient);
  ASSERT_NE(client, nullptr);
  CompletionRecord record;
  using Check = CompletionTable::Check;
  EXPECT_EQ(CompletionTable::Lookup(client, 40, 37, 5, &record), Check::kDone);
  EXPECT_EQ(record.version, Version(Epoch(3), 1).bits());
  EXPECT_EQ(record.memgest, kRep.value());
  EXPECT_EQ(CompletionTable::Lookup(client, 40, 37, 6, &record), Check::kReused);
  EXPECT_EQ(CompletionTable::Lookup(client, 36, 30, 5, &record), Check::kStale);  // X3
}

TEST_F(MemberShardTest, X4RecordAndExpireRecordEntries) {
  EntryFields fields = Fields(EntryType::kRecord, 1);
  fields.client = kClient;
  fields.seq = 9;
  fields.result_code = 1;
  Append(fields);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(member_.completions().client_count(), 1u);
  EntryFields expire = Fields(EntryType::kExpireRecord, 2);
  expire.client = kClient;
  expire.seq = 10;
  Append(expire);
  fields.index = 3;
  fields.seq = 10;
  fields.incomplete_delta = 10;
  Append(fields);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(2));
  CompletionRecord record;
  CompletionTable::Client* client = member_.completions().Find(kClient);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(CompletionTable::Lookup(client, 9, 0, 0, &record), CompletionTable::Check::kNew);
  EXPECT_EQ(CompletionTable::Lookup(client, 10, 0, 0, &record), CompletionTable::Check::kDone);
}

TEST_F(MemberShardTest, EachLogIsDenseInItself) {
  member_.AddReplica(Replicated(kOther));
  Append(Put(1, 0), "a");
  EntryFields other = Put(1, 64);
  other.memgest = kOther;
  other.offset_cells = 0;
  Append(other, "b");
  Append(Put(2, 1), "c");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(3));
  EXPECT_EQ(member_.applied(kOther), 1u);
  Append(Put(4, 2), "gap");
  EXPECT_THAT(CommitAndFold(), StatusIs(kDataLoss));
}

TEST_F(MemberShardTest, AReappendedEntryOfANewRingIsSkippedIfItWasFolded) {
  Append(Put(1, 0), "one");
  Append(Put(2, 1), "two");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(2));
  Start();
  Append(Put(2, 1), "TWO");
  Append(Put(3, 2), "three");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(2));
  EXPECT_EQ(Bytes(2, 3), "two");
  EXPECT_EQ(member_.applied(kRep), 3u);
  Append(Put(3, 2), "again");  // within one ring an index never comes twice
  EXPECT_THAT(CommitAndFold(), StatusIs(kDataLoss));
}

TEST_F(MemberShardTest, AMemgestThatIsNotKnownYetLeavesTheRingWhereItIs) {
  Append(Put(1, 0), "one");
  EntryFields other = Put(1, 64);
  other.memgest = kOther;
  other.offset_cells = 0;
  Append(other, "b");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  const std::uint64_t position = member_.reader()->folded_position();
  EXPECT_THAT(member_.Fold(10), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(member_.reader()->folded_position(), position);
  member_.AddReplica(Replicated(kOther));
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_EQ(Bytes(0, 1, kOther), "b");
}

TEST_F(MemberShardTest, WithoutMemoryTheEntryStaysInTheRingWhereverItFails) {
  Append(Put(1, 0), "one");
  ring_->Commit();
  for (std::size_t n = 1; n <= 2; ++n) {  // lines, heap
    device_.calls = 0;
    device_.fail_from = n;
    MemberShard member(&device_, GroupId(1), ShardId(0), 1u << 16);
    member.AddReplica(Replicated(kRep));
    member.Attach(ring_->MakeReader());
    EXPECT_THAT(member.Fold(10), StatusIs(absl::StatusCode::kResourceExhausted)) << n;
    EXPECT_EQ(member.applied(kRep), 0u);
    EXPECT_EQ(member.reader()->folded_position(), 0u);
    device_.fail_from = ~std::size_t{0};
    EXPECT_THAT(member.Fold(10), IsOkAndHolds(1));
  }
}

TEST_F(MemberShardTest, ARemovedMemgestKeepsItsCompletionRecords) {
  EntryFields fields = Put(1, 0, LongKey());
  Append(fields, "one");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  member_.RemoveMemgest(kRep);
  EXPECT_EQ(member_.lines().line(0).version, 0u);
  EXPECT_EQ(member_.replica_heap(kRep), nullptr);
  fields = Put(2, 0);
  fields.client = kClient;
  fields.seq = 1;
  Append(fields, "two");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(member_.lines().line(0).version, 0u);
  EXPECT_EQ(member_.completions().client_count(), 1u);
}

TEST_F(MemberShardTest, G10ARemovedMemgestLeavesNoGranules) {
  const std::uint32_t before = member_.lines().granules_left();
  Append(Put(1, 0), "one");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  ASSERT_EQ(member_.lines().granules_left(), before - 1);
  member_.RemoveMemgest(kRep);
  EXPECT_EQ(member_.lines().granules_left(), before);
  EXPECT_FALSE(member_.lines().Has(0));
}

TEST_F(MemberShardTest, RefusesEntriesWhoseFieldsMakeNoSense) {
  std::vector<std::pair<EntryFields, std::string>> wrong;
  EntryFields fields = Put(1, kNoLine);
  wrong.emplace_back(fields, "no line");
  fields = Put(1, 1u << 16);
  wrong.emplace_back(fields, "line past the limit");
  fields = Put(1, 0);
  wrong.emplace_back(fields, std::string(129, 'x'));  // longer than the slot
  fields.size_class = 200;
  wrong.emplace_back(fields, "class");
  fields = Put(1, 5);
  fields.offset_cells = 3;
  wrong.emplace_back(fields, "granule below 0");
  fields = Put(1, 0);
  fields.client = kClient;
  fields.seq = 5;
  fields.incomplete_delta = 6;
  wrong.emplace_back(fields, "first incomplete below 0");
  fields.seq = 5000;
  fields.incomplete_delta = 1024;
  wrong.emplace_back(fields, "more than 1,024 outstanding");
  fields = Put(1, 0);
  fields.version = Version();
  wrong.emplace_back(fields, "no version");
  fields = Fields(EntryType::kBase, 1);
  wrong.emplace_back(fields, "");  // at a replica
  fields = Fields(EntryType::kRecord, 1);
  wrong.emplace_back(fields, "");
  fields = Fields(EntryType::kFinal, 1);
  fields.line = 0;
  fields.key = "k";
  fields.value_length = 10;
  wrong.emplace_back(fields, "");
  for (const auto& [entry, value] : wrong) {
    EntryRing ring;
    MemberShard member(&device_, GroupId(1), ShardId(0), 1u << 16);
    member.AddReplica(Replicated(kRep));
    member.Attach(ring.MakeReader());
    ring.Append(entry, value.data(), value.size());
    ring.Commit();
    EXPECT_THAT(member.Fold(1), StatusIs(kDataLoss)) << value;
    EXPECT_EQ(member.applied(kRep), 0u);
  }
}

}  // namespace
}  // namespace ring::memgest
