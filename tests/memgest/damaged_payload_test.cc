// F10: entries whose header is right and whose payload is not, at a replica and at a parity.
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "memgest/member_shard.h"
#include "ring/base/crc32c.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
constexpr MemgestId kMemgest{2};
constexpr std::uint32_t kBlock = 4096;

class DamagedPayload : public ::testing::Test {
 protected:
  DamagedPayload() { member_.Attach(ring_.MakeReader()); }

  static EntryFields Fields(EntryType type, std::uint64_t index) {
    EntryFields fields;
    fields.type = type;
    fields.memgest = kMemgest;
    fields.index = index;
    fields.version = Version(Epoch(3), index);
    fields.key = "key";
    return fields;
  }
  // Into slot `line` of class 2 (128 bytes).
  void AppendPut(std::uint64_t index, std::uint32_t line, const std::string& value) {
    EntryFields fields = Fields(EntryType::kPut, index);
    fields.line = line;
    fields.size_class = 2;
    fields.offset_cells = line * 2;
    fields.value_length = static_cast<std::uint32_t>(value.size());
    fields.value_crc = Crc32c(value.data(), value.size());
    ring_.Append(fields, value.data(), value.size());
  }
  void AppendFinal(std::uint64_t index, std::uint32_t line, Range range, const std::string& value) {
    EntryFields fields = Fields(EntryType::kFinal, index);
    fields.ranges = absl::MakeConstSpan(&range, 1);
    fields.line = line;
    fields.value_length = static_cast<std::uint32_t>(value.size());
    fields.value_crc = Crc32c(value.data(), value.size());
    ring_.Append(fields, nullptr, 0);
  }
  void DamageLast() { ring_.last()[kEntryHeaderSize + 4] ^= std::byte{1}; }
  bool IsAbsent(std::uint32_t line) { return (member_.lines().line(line).flags & kAbsent) != 0; }
  absl::StatusOr<int> CommitAndFold() {
    ring_.Commit();
    return member_.Fold(1000);
  }

  TwinDevice device_;
  EntryRing ring_;
  MemberShard member_{&device_, GroupId(1), ShardId(0), 1u << 16};
};

class DamagedAtReplica : public DamagedPayload {
 protected:
  DamagedAtReplica() {
    protocol::MemgestDescriptor descriptor;
    descriptor.id = kMemgest;
    descriptor.r = 3;
    descriptor.block_size = kBlock;
    member_.AddReplica(descriptor);
  }
};

class DamagedAtParity : public DamagedPayload {
 protected:
  DamagedAtParity() { member_.AddParity(descriptor_, &store_); }
  static protocol::MemgestDescriptor Coded() {
    protocol::MemgestDescriptor descriptor;
    descriptor.id = kMemgest;
    descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor.k = 3;
    descriptor.m = 1;
    descriptor.block_size = kBlock;
    return descriptor;
  }

  const protocol::MemgestDescriptor descriptor_ = Coded();
  ParityStore store_{&device_, descriptor_, 3, 0};
};

// Its header says what was committed; the value is somebody else's to give.
TEST_F(DamagedAtReplica, F10TheVersionIsFoldedAndLacksItsValueTillItIsFetched) {
  AppendPut(1, 0, "one");
  AppendPut(2, 1, "other");
  DamageLast();
  AppendPut(3, 2, "three");
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(3));
  const Version damaged(Epoch(3), 2);
  EXPECT_EQ(member_.lines().line(1).version, damaged.bits());
  EXPECT_TRUE(IsAbsent(1));
  EXPECT_EQ(member_.absent_count(kMemgest), 1u);
  EXPECT_EQ(member_.damaged_count(), 1u);
  EXPECT_THAT(member_.ReadValue(1, damaged, 0, 9), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const ValuePiece three, member_.ReadValue(2, Version(Epoch(3), 3), 0, 9));
  EXPECT_EQ(three.bytes, "three");
  const std::string value = "other";
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(value.data()), 5);
  ASSERT_OK(member_.InstallValue(1, damaged, bytes));
  ASSERT_OK_AND_ASSIGN(const ValuePiece other, member_.ReadValue(1, damaged, 0, 9));
  EXPECT_EQ(other.bytes, "other");
  EXPECT_EQ(member_.absent_count(), 0u);
}

TEST_F(DamagedAtReplica, F10ALargeValueOfWhichAPartIsDamagedIsLackedAsAWhole) {
  const std::string half(128, 'v');
  for (std::uint32_t i = 0; i < 4; ++i) {
    EntryFields part = Fields(EntryType::kPart, i + 1);
    part.offset_cells = i * 2;
    ring_.Append(part, half.data(), half.size());
    if (i == 2) DamageLast();
  }
  AppendFinal(5, 0, {0, 4}, half + half);
  AppendFinal(6, 1, {4, 4}, half + half);
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(6));
  EXPECT_FALSE(IsAbsent(0));
  EXPECT_TRUE(IsAbsent(1));
  EXPECT_EQ(member_.absent_count(kMemgest), 1u);
}

// A delta cannot be had from anybody: the parity goes no further, and joins again.
TEST_F(DamagedAtParity, F10ADeltaThatCountsIsRefused) {
  AppendPut(1, 0, std::string(128, 'd'));
  DamageLast();
  EXPECT_THAT(CommitAndFold(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(member_.applied(kMemgest), 0u);
  EXPECT_EQ(store_.ReadRow(0, 0).last_touch[0], 0u);
  EXPECT_EQ(*store_.ReadRow(0, 0).bytes, std::byte{0});
}

// One that is rebuilt gets what the delta says with a BASE: so joining again ends.
TEST_F(DamagedAtParity, F10ADeltaThatDoesNotCountYetIsFoldedWithoutItsBytes) {
  store_.BeginRebuild(ShardId(0), kBlock / kCellSize);
  AppendPut(1, 0, std::string(128, 'd'));
  DamageLast();
  ASSERT_THAT(CommitAndFold(), IsOkAndHolds(1));
  EXPECT_EQ(member_.applied(kMemgest), 1u);
  const std::string block(kBlock, 'b');
  ASSERT_OK(store_.Ensure(ShardId(0), 0, kBlock));
  ASSERT_OK(
      store_.Base(ShardId(0), 0, reinterpret_cast<const std::byte*>(block.data()), kBlock, 1));
  EXPECT_EQ(std::memcmp(store_.ReadRow(0, 0).bytes, block.data(), kBlock), 0);
}

// The BASE may come between what was looked at ahead and what is folded.
TEST_F(DamagedAtParity, F10ADeltaThatCountsSinceTheEntryBeforeItIsRefused) {
  store_.BeginRebuild(ShardId(0), kBlock / kCellSize);
  EntryFields base = Fields(EntryType::kBase, 1);
  base.key = "";
  base.value_length = kBlock;
  const std::string block(kBlock, 'b');
  ring_.Append(base, block.data(), block.size());
  AppendPut(2, 0, std::string(128, 'd'));
  DamageLast();
  EXPECT_THAT(CommitAndFold(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(member_.applied(kMemgest), 1u);
  EXPECT_EQ(std::memcmp(store_.ReadRow(0, 0).bytes, block.data(), kBlock), 0);
}

}  // namespace
}  // namespace ring::memgest
