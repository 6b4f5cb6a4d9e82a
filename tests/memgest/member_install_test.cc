// A joiner: snapshot pieces, shipped entries, single values.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/member_shard.h"
#include "memgest/size_class.h"
#include "ring/base/random.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr MemgestId kRep{2};
constexpr ClientId kClient{11, 12};

protocol::MemgestDescriptor Replicated() {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = kRep;
  descriptor.r = 3;
  descriptor.block_size = 64 * 1024;
  return descriptor;
}

EntryFields Fields(EntryType type, std::uint64_t index) {
  EntryFields fields;
  fields.type = type;
  fields.memgest = kRep;
  fields.index = index;
  fields.version = Version(Epoch(3), index);
  return fields;
}

absl::Span<const std::byte> BytesOf(const std::string& value) {
  return {reinterpret_cast<const std::byte*>(value.data()), value.size()};
}

class MemberInstallTest : public ::testing::Test {
 protected:
  MemberInstallTest() {
    source_.AddReplica(Replicated());
    source_.Attach(ring_.MakeReader());
    joiner_.Reset(Epoch(3));
    joiner_.AddReplica(Replicated());
  }
  void Put(std::uint64_t index, std::uint32_t line, const std::string& value,
           const std::vector<CollectItem>& collect = {}) {
    EntryFields fields = Fields(EntryType::kPut, index);
    fields.line = line;
    fields.size_class = 2;
    fields.offset_cells = line * 2;
    fields.key = "key";
    fields.value_length = static_cast<std::uint32_t>(value.size());
    fields.value_crc = Crc32c(value.data(), value.size());
    fields.collect = collect;
    ring_.Append(fields, value.data(), value.size());
  }
  void Fold() {
    ring_.Commit();
    ASSERT_OK(source_.Fold(100'000).status());
  }
  void Join() {
    Fold();
    const std::vector<MemgestId> logs = {kRep};
    for (const std::string& piece : AllPieces(*source_.TakeSnapshot(++snapshot_, logs))) {
      ASSERT_OK(joiner_.Install(piece));
    }
  }
  // The joiner's ring, which begins behind the snapshot.
  EntryRing& OpenJoiner() {
    joiner_ring_ = std::make_unique<EntryRing>();
    joiner_.Attach(joiner_ring_->MakeReader());
    RING_CHECK(joiner_.Adopt(Epoch(3)).ok());
    return *joiner_ring_;
  }
  unsigned Flags(std::uint32_t line) { return joiner_.lines().line(line).flags; }

  TwinDevice device_, joiner_device_;
  EntryRing ring_;
  std::unique_ptr<EntryRing> joiner_ring_;
  MemberShard source_{&device_, GroupId(1), ShardId(0), 1u << 16};
  MemberShard joiner_{&joiner_device_, GroupId(1), ShardId(0), 1u << 16};
  std::uint64_t snapshot_ = 0;
};

TEST_F(MemberInstallTest, LinesComeWithoutValuesAndCountAsAbsent) {
  Put(1, 0, "one");
  Put(2, 1, "");
  EntryFields tombstone = Fields(EntryType::kTombstone, 3);
  tombstone.line = 64;
  tombstone.key = "gone";
  ring_.Append(tombstone, nullptr, 0);
  Join();
  EXPECT_EQ(joiner_.applied(kRep), 3u);
  EXPECT_EQ(Flags(0), unsigned{kLive | kCommitted | kAbsent});
  EXPECT_EQ(Flags(1), unsigned{kLive | kCommitted}) << "an empty value has no bytes to wait for";
  EXPECT_EQ(Flags(64), unsigned{kLive | kCommitted | kTombstone});
  EXPECT_EQ(joiner_.absent_count(kRep), 1u);
  EXPECT_EQ(joiner_.replica_heap(kRep)->reserved_bytes(), 0u) << "no memory for what is not here";
  EXPECT_EQ(joiner_.end_cells(kRep), 1u);
}

// A granule stays its memgest's, and members remember it: who becomes coordinator must know.
TEST_F(MemberInstallTest, AGranuleWithoutALineComesWithTheSnapshot) {
  Put(1, 70, "one");
  EntryFields collect = Fields(EntryType::kCollect, 2);
  const CollectItem item{Version(Epoch(3), 1).bits(), 70};
  collect.collect = absl::MakeConstSpan(&item, 1);
  ring_.Append(collect, nullptr, 0);
  Join();
  ASSERT_TRUE(joiner_.lines().Has(70));
  EXPECT_EQ(joiner_.lines().granule(70).memgest, kRep.value());
  EXPECT_EQ(joiner_.lines().granule(70).taken, 0u);
  EXPECT_FALSE(joiner_.lines().Has(0));
}

TEST_F(MemberInstallTest, S5AValueIsInstalledOnlyWhileItsLineHoldsThatVersion) {
  Put(1, 0, "one");
  Put(2, 1, "two");
  Join();
  const Version first(Epoch(3), 1), second(Epoch(3), 2);
  EXPECT_THAT(joiner_.InstallValue(0, first, BytesOf("onX")), StatusIs(kInvalidArgument));
  EXPECT_THAT(joiner_.InstallValue(0, first, BytesOf("one+")), StatusIs(kInvalidArgument));
  EXPECT_THAT(joiner_.InstallValue(0, second, BytesOf("two")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(joiner_.InstallValue(9999, first, BytesOf("one")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(joiner_.InstallValue(2, Version(), {}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(joiner_.absent_count(kRep), 2u);
  joiner_device_.fail_from = 0;
  EXPECT_THAT(joiner_.InstallValue(0, first, BytesOf("one")),
              StatusIs(absl::StatusCode::kResourceExhausted));
  joiner_device_.fail_from = ~std::size_t{0};
  EXPECT_OK(joiner_.InstallValue(0, first, BytesOf("one")));
  EXPECT_EQ(Flags(0), unsigned{kLive | kCommitted});
  EXPECT_EQ(joiner_.absent_count(kRep), 1u);
  // Collected and used again meanwhile: the copy that comes late is of another version.
  EntryRing& ring = OpenJoiner();
  EntryFields collect = Fields(EntryType::kCollect, 3);
  const CollectItem item{second.bits(), 1};
  collect.collect = absl::MakeConstSpan(&item, 1);
  ring.Append(collect, nullptr, 0);
  EntryFields put = Fields(EntryType::kPut, 4);
  put.line = 1;
  put.size_class = 2;
  put.offset_cells = 2;
  put.key = "key";
  put.value_length = 3;
  put.value_crc = Crc32c("new", 3);
  ring.Append(put, "new", 3);
  ring.Commit();
  ASSERT_THAT(joiner_.Fold(10), IsOkAndHolds(2));
  EXPECT_EQ(Flags(1), unsigned{kLive | kCommitted});
  EXPECT_EQ(joiner_.absent_count(kRep), 0u);
  EXPECT_THAT(joiner_.InstallValue(1, second, BytesOf("two")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(joiner_.InstallValue(1, Version(Epoch(3), 4), BytesOf("new"))) << "it is here: no-op";
  EXPECT_EQ(std::memcmp(joiner_.replica_heap(kRep)->At(2), "new", 3), 0);
}

TEST_F(MemberInstallTest, S10ALargeValueWhosePartsCameBeforeTheSnapshotIsAbsent) {
  const std::string value(100'000, 'v');
  const Range range{4096, 2048};
  const auto append = [&](EntryRing& ring, std::uint64_t index, std::size_t at) {
    EntryFields part = Fields(EntryType::kPart, index);
    part.offset_cells = range.offset_cells + static_cast<std::uint32_t>(at / 64);
    ring.Append(part, value.data() + at, std::min<std::size_t>(65536, value.size() - at));
  };
  append(ring_, 1, 0);
  Join();
  EXPECT_EQ(joiner_.end_cells(kRep), 4096u + 1024u) << "S4: also of what no version names yet";
  EntryRing& ring = OpenJoiner();
  append(ring, 2, 65536);
  EntryFields final = Fields(EntryType::kFinal, 3);
  final.line = 0;
  final.key = "large";
  final.value_length = static_cast<std::uint32_t>(value.size());
  final.value_crc = Crc32c(value.data(), value.size());
  final.ranges = absl::MakeConstSpan(&range, 1);
  ring.Append(final, nullptr, 0);
  ring.Commit();
  ASSERT_THAT(joiner_.Fold(10), IsOkAndHolds(2));
  EXPECT_EQ(Flags(0), unsigned{kLive | kCommitted | kLarge | kAbsent});
  EXPECT_EQ(joiner_.absent_count(kRep), 1u);
  ASSERT_OK(joiner_.InstallValue(0, final.version, BytesOf(value)));
  EXPECT_EQ(std::memcmp(joiner_.replica_heap(kRep)->At(4096), value.data(), value.size()), 0);
  // All parts behind the snapshot: the value is here.
  for (std::uint64_t index : {4, 5}) append(ring, index, index == 4 ? 0 : 65536);
  final.index = 6;
  final.version = Version(Epoch(3), 6);
  final.line = 1;
  ring.Append(final, nullptr, 0);
  ring.Commit();
  ASSERT_THAT(joiner_.Fold(10), IsOkAndHolds(3));
  EXPECT_EQ(Flags(1), unsigned{kLive | kCommitted | kLarge});
}

TEST_F(MemberInstallTest, X2CompletionRecordsComeWithEachClientsFirstIncomplete) {
  EntryFields fields = Fields(EntryType::kRecord, 1);
  fields.client = kClient;
  fields.seq = 40;
  fields.incomplete_delta = 3;
  fields.request_crc = 5;
  fields.result_code = 1;
  ring_.Append(fields, nullptr, 0);
  Fold();
  // A client all of whose records are of another log, or gone: what it finished stays finished.
  const ClientId other{1, 1};
  CompletionTable::MoveFirst(source_.completions().FindOrAdd(other), 17);
  CompletionTable::Begin(source_.completions().Find(other), 18, 1, kRep, Version(1));
  CompletionTable::Finish(source_.completions().Find(other), 17,
                          {.seq = 19, .version = 2, .request_crc = 1, .memgest = 9});
  Join();
  using Check = CompletionTable::Check;
  CompletionRecord record;
  CompletionTable::Client* client = joiner_.completions().Find(kClient);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(CompletionTable::Lookup(client, 40, 0, 5, &record), Check::kDone);
  EXPECT_EQ(record.version, fields.version.bits());
  EXPECT_EQ(record.code, 1);
  EXPECT_EQ(CompletionTable::Lookup(client, 40, 0, 6, &record), Check::kReused);
  EXPECT_EQ(CompletionTable::Lookup(client, 36, 0, 5, &record), Check::kStale);
  client = joiner_.completions().Find(other);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(CompletionTable::Lookup(client, 16, 0, 1, &record), Check::kStale);
  EXPECT_EQ(CompletionTable::Lookup(client, 18, 0, 1, &record), Check::kNew) << "under way there";
  EXPECT_EQ(CompletionTable::Lookup(client, 19, 0, 1, &record), Check::kNew) << "of another log";
}

TEST_F(MemberInstallTest, PiecesAreOneStateWhateverTheSourceFoldsMeanwhile) {
  for (std::uint32_t i = 0; i < 3000; ++i) Put(i + 1, i, "value " + std::to_string(i));
  Fold();
  const std::vector<MemgestId> logs = {kRep};
  const std::vector<std::string> snapshot = AllPieces(*source_.TakeSnapshot(5, logs));
  ASSERT_GT(snapshot.size(), 2u);
  EXPECT_THAT(joiner_.Install(snapshot[1]), StatusIs(kInvalidArgument)) << "not the next";
  ASSERT_OK(joiner_.Install(snapshot[0]));
  Put(3001, 3000, "behind it", {{Version(Epoch(3), 2999).bits(), 2998}});
  Fold();
  EntryRing& ring = OpenJoiner();
  EntryFields collect = Fields(EntryType::kCollect, 3001);
  const CollectItem last{Version(Epoch(3), 3000).bits(), 2999};
  collect.collect = absl::MakeConstSpan(&last, 1);
  ring.Append(collect, nullptr, 0);
  ring.Commit();
  EXPECT_THAT(joiner_.Fold(1), IsOkAndHolds(0)) << "half of a snapshot";
  EXPECT_FALSE(joiner_.HasWork());
  EXPECT_THAT(joiner_.Seal(Epoch(4), Epoch(3)), StatusIs(absl::StatusCode::kAborted))
      << "half of a snapshot is no log";
  const std::vector<std::string> another = AllPieces(*source_.TakeSnapshot(6, logs));
  EXPECT_THAT(joiner_.Install(another[1]), StatusIs(kInvalidArgument));
  for (const std::string& piece : snapshot) {
    joiner_device_.fail_from = 0;  // no memory: the same piece again
    const absl::Status status = joiner_.Install(piece);
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    joiner_device_.fail_from = ~std::size_t{0};
    ASSERT_OK(joiner_.Install(piece));
  }
  ASSERT_OK(joiner_.Install(snapshot[0])) << "taken already";
  EXPECT_EQ(joiner_.applied(kRep), 3000u);
  EXPECT_NE(joiner_.lines().line(2998).version, 0u);
  EXPECT_EQ(joiner_.lines().line(3000).version, 0u);
  EXPECT_EQ(joiner_.absent_count(kRep), 3000u);
  EXPECT_THAT(joiner_.Fold(1), IsOkAndHolds(1));
  EXPECT_EQ(joiner_.lines().line(2999).version, 0u);
  EXPECT_THAT(joiner_.Install(another[0]), StatusIs(kInvalidArgument)) << "is here already";
}

// Until it has everything, and is told so, a joiner's ring waits.
TEST_F(MemberInstallTest, AJoinersRingIsFoldedOnlyBehindItsSnapshotsAndAdopt) {
  Put(1, 0, "one");
  joiner_ring_ = std::make_unique<EntryRing>();
  joiner_.Attach(joiner_ring_->MakeReader());
  EntryFields collect = Fields(EntryType::kCollect, 2);
  joiner_ring_->Append(collect, nullptr, 0);
  joiner_ring_->Commit();
  EXPECT_THAT(joiner_.Fold(1), IsOkAndHolds(0));
  Join();
  EXPECT_THAT(joiner_.Fold(1), IsOkAndHolds(0));
  ASSERT_OK(joiner_.Adopt(Epoch(3)));
  EXPECT_THAT(joiner_.Fold(1), IsOkAndHolds(1));
  EXPECT_EQ(joiner_.applied(kRep), 2u);
}

TEST_F(MemberInstallTest, SnapshotsOfTwoSourcesMayHaveTheSameId) {
  constexpr MemgestId kOther{3};
  MemberShard other(&device_, GroupId(1), ShardId(0), 1u << 16);
  protocol::MemgestDescriptor descriptor = Replicated();
  descriptor.id = kOther;
  other.AddReplica(descriptor);
  joiner_.AddReplica(descriptor);
  EntryRing ring;
  other.Attach(ring.MakeReader());
  EntryFields fields = Fields(EntryType::kTombstone, 1);
  fields.memgest = kOther;
  fields.line = 640;
  fields.key = "gone";
  ring.Append(fields, nullptr, 0);
  ring.Commit();
  ASSERT_THAT(other.Fold(1), IsOkAndHolds(1));
  Put(1, 0, "one");
  Fold();
  const std::vector<MemgestId> one = {kRep}, two = {kOther};
  const std::vector<std::string> first = AllPieces(*source_.TakeSnapshot(7, one));
  const std::vector<std::string> second = AllPieces(*other.TakeSnapshot(7, two));
  ASSERT_OK(joiner_.Install(first[0]));
  ASSERT_OK(joiner_.Install(first[0]));
  ASSERT_OK(joiner_.Install(second[0]));
  EXPECT_EQ(joiner_.applied(kOther), 1u);
  EXPECT_EQ(Flags(640), unsigned{kLive | kCommitted | kTombstone});
  // Another state of a log that is here, under the same id: no piece that comes again.
  Put(2, 1, "two");
  Fold();
  EXPECT_THAT(joiner_.Install(AllPieces(*source_.TakeSnapshot(7, one))[0]),
              StatusIs(kInvalidArgument));
}

TEST_F(MemberInstallTest, AMemgestThatIsNotKnownYetIsAskedForAgain) {
  Put(1, 0, "one");
  Fold();
  const std::vector<MemgestId> logs = {kRep};
  const std::vector<std::string> snapshot = AllPieces(*source_.TakeSnapshot(5, logs));
  MemberShard stranger(&joiner_device_, GroupId(1), ShardId(0), 1u << 16);
  EXPECT_THAT(stranger.Install(snapshot[0]), StatusIs(absl::StatusCode::kFailedPrecondition));
  stranger.AddReplica(Replicated());
  EXPECT_OK(stranger.Install(snapshot[0]));
  EXPECT_EQ(stranger.applied(kRep), 1u);
}

TEST_F(MemberInstallTest, ASnapshotThatContradictsTheTableIsRefused) {
  Put(1, 0, "one");
  Put(2, 40'000, "far");
  Fold();
  const std::vector<MemgestId> logs = {kRep};
  const std::vector<std::string> snapshot = AllPieces(*source_.TakeSnapshot(5, logs));
  MemberShard small(&joiner_device_, GroupId(1), ShardId(0), 64);
  small.AddReplica(Replicated());
  EXPECT_THAT(small.Install(snapshot[0]), StatusIs(kInvalidArgument)) << "line limit";
}

// Bytes of a peer's, with the CRC right: refused or taken, never the end of the process.
TEST_F(MemberInstallTest, HostilePiecesAreRefusedOrTaken) {
  Put(1, 0, "one");
  Put(2, 64, std::string(100, 'x'));
  EntryFields final = Fields(EntryType::kFinal, 3);
  const Range range{4096, 1024};
  final.line = 128;
  final.key = "large";
  final.value_length = 65536;
  final.ranges = absl::MakeConstSpan(&range, 1);
  final.client = kClient;
  final.seq = 40;
  final.incomplete_delta = 3;
  ring_.Append(final, nullptr, 0);
  Fold();
  const std::vector<MemgestId> logs = {kRep};
  const std::string piece = AllPieces(*source_.TakeSnapshot(5, logs))[0];
  SeededRandom random(ring::testing::SeedFor("hostile pieces"));
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = piece;
    for (std::uint64_t n = 1 + random.Below(3); n > 0; --n) {
      bad[24 + random.Below(bad.size() - 24)] = static_cast<char>(random.Next64());
    }
    if (random.Below(4) == 0) bad += bad.substr(24, random.Below(bad.size()));
    const std::uint32_t crc = Crc32c(bad.data() + 8, bad.size() - 8);
    std::memcpy(bad.data() + 4, &crc, sizeof(crc));
    TwinDevice device;
    MemberShard member(&device, GroupId(1), ShardId(0), 1u << 16);
    member.AddReplica(Replicated());
    const absl::Status status = member.Install(bad);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status) ||
                absl::IsFailedPrecondition(status))
        << status;
    refused += status.ok() ? 0 : 1;
    for (std::uint32_t line = 0; line < 192; ++line) {
      if (!member.lines().Has(line)) continue;
      const Version version(member.lines().line(line).version);
      member.InstallValue(line, version, BytesOf("one")).IgnoreError();
    }
    const std::vector<std::string> again = AllPieces(*member.TakeSnapshot(6, logs));
    EXPECT_OK(SnapshotReader::Open(again[0]).status());
  }
  EXPECT_GT(refused, 300);
  EXPECT_LT(refused, 3000);
}

TEST_F(MemberInstallTest, ShippedEntriesAreFoldedOnceAndAGapIsDataLoss) {
  Put(1, 0, "one");
  Join();
  Put(2, 1, "two");
  Put(3, 2, "three");
  Put(4, 3, "four");
  std::vector<EntryView> views;
  const std::unique_ptr<LogReader> reader = ring_.MakeReader();
  reader->FindTail([&](const EntryView& view) { views.push_back(view); });
  ASSERT_EQ(views.size(), 4u);
  EXPECT_OK(joiner_.FoldShipped(views[0])) << "is in the snapshot";
  EXPECT_OK(joiner_.FoldShipped(views[1]));
  EXPECT_OK(joiner_.FoldShipped(views[0])) << "another source begins further back";
  EXPECT_OK(joiner_.FoldShipped(views[1]));
  EXPECT_EQ(joiner_.applied(kRep), 2u);
  EXPECT_EQ(Flags(0), unsigned{kLive | kCommitted | kAbsent});
  EXPECT_EQ(Flags(1), unsigned{kLive | kCommitted});
  EXPECT_EQ(std::memcmp(joiner_.replica_heap(kRep)->At(2), "two", 3), 0);
  EXPECT_THAT(joiner_.FoldShipped(views[3]), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(joiner_.FoldShipped(views[2]), StatusIs(absl::StatusCode::kDataLoss)) << "for good";
}

TEST_F(MemberInstallTest, ACodedMemgestCanBeHereWithItsMetadataAlone) {
  protocol::MemgestDescriptor coded;
  coded.id = MemgestId(4);
  coded.scheme = protocol::Scheme::kStretchedReedSolomon;
  coded.k = 3;
  coded.m = 2;
  joiner_.AddMetadata(coded);
  EntryRing& ring = OpenJoiner();
  EntryFields put = Fields(EntryType::kPut, 1);
  put.memgest = coded.id;
  put.line = 64;
  put.size_class = 2;
  put.offset_cells = 256;
  put.key = "key";
  put.value_length = 100;
  ring.Append(put, std::string(100, 'd').data(), 100);
  EntryFields release = Fields(EntryType::kRelease, 2);
  release.memgest = coded.id;
  release.version = Version();
  release.value_length = 4096;
  ring.Append(release, std::string(4096, 'd').data(), 4096);
  ring.Commit();
  ASSERT_THAT(joiner_.Fold(10), IsOkAndHolds(2));
  EXPECT_EQ(Flags(64), unsigned{kLive | kCommitted});
  EXPECT_EQ(joiner_.end_cells(coded.id), 258u);
}

}  // namespace
}  // namespace ring::memgest
