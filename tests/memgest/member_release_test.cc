// Chunks of a replica's heap that RELEASEs leave empty: S14, F11.
#include <string>

#include "gtest/gtest.h"
#include "memgest/member_shard.h"
#include "memgest/size_class.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::IsOkAndHolds;
constexpr MemgestId kRep{2};
constexpr std::uint32_t kSize = 4096;
constexpr std::uint32_t kPlace = HeapSpace::kChunkCells;  // the second chunk

class MemberReleaseTest : public ::testing::Test {
 protected:
  MemberReleaseTest() {
    protocol::MemgestDescriptor descriptor;
    descriptor.id = kRep;
    descriptor.r = 3;
    member_.Attach(ring_.MakeReader());
    member_.AddReplica(descriptor);
  }
  EntryFields Next(EntryType type) {
    EntryFields fields;
    fields.type = type;
    fields.memgest = kRep;
    fields.index = ++index_;
    return fields;
  }
  // A page into line 0, whose slot is the first page of the chunk.
  void Put(char byte) {
    EntryFields fields = Next(EntryType::kPut);
    fields.version = version_ = Version(Epoch(3), index_);
    fields.line = 0;
    fields.size_class = ClassOf(kSize);
    fields.offset_cells = kPlace;
    fields.key = "key";
    fields.value_length = kSize;
    const std::string value(kSize, byte);
    ring_.Append(fields, value.data(), value.size());
  }
  // The version goes, and then its page.
  void CollectAndRelease() {
    EntryFields collect = Next(EntryType::kCollect);
    const CollectItem item{version_.bits(), 0, 0};
    collect.collect = absl::MakeConstSpan(&item, 1);
    ring_.Append(collect, nullptr, 0);
    EntryFields release = Next(EntryType::kRelease);
    release.offset_cells = kPlace;
    release.value_length = kSize;
    ring_.Append(release, nullptr, 0);
  }
  absl::StatusOr<int> CommitAndFold() {
    ring_.Commit();
    return member_.Fold(1000);
  }
  const HeapSpace& heap() const { return *member_.replica_heap(kRep); }
  std::string Bytes() const { return {reinterpret_cast<const char*>(heap().At(kPlace)), kSize}; }

  TwinDevice device_;
  EntryRing ring_;
  MemberShard member_{&device_, GroupId(1), ShardId(0), 1u << 16};
  std::uint64_t index_ = 0;
  Version version_;
};

TEST_F(MemberReleaseTest, AChunkThatIsEmptyServesOthersAndComesAgain) {
  Put('a');
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  ASSERT_EQ(heap().reserved_bytes(), HeapSpace::kChunkSize);
  CollectAndRelease();
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(2));
  EXPECT_EQ(heap().reserved_bytes(), 0u);
  EXPECT_EQ(device_.freed, HeapSpace::kChunkSize);
  Put('b');
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(Bytes(), std::string(kSize, 'b'));
}

// An entry that was looked at before the RELEASE was folded cannot fail any more.
TEST_F(MemberReleaseTest, F11MemoryThatAnEntryBehindTheReleaseNeedsStays) {
  Put('a');
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  device_.fail_from = 0;
  CollectAndRelease();
  Put('b');
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(3));
  EXPECT_EQ(Bytes(), std::string(kSize, 'b'));
  EXPECT_EQ(device_.freed, 0u);
}

// So it is for an entry that was shipped, and is folded by itself.
TEST_F(MemberReleaseTest, AShippedReleaseGivesTheChunkBackToo) {
  Put('a');
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  CollectAndRelease();
  ring_.Commit();
  const std::unique_ptr<LogReader> reader = ring_.MakeReader();
  EntryView entry;
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(reader->Next(&entry), IsOkAndHolds(true));
    ASSERT_OK(member_.FoldShipped(entry));
    reader->Consume(entry);
  }
  EXPECT_EQ(device_.freed, HeapSpace::kChunkSize);
}

}  // namespace
}  // namespace ring::memgest
