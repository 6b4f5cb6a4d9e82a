// A member through epoch changes: Seal, Adopt, Reset, and the raw tail (steps 2, 6 and 7).
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/log_tail.h"
#include "memgest/member_shard.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr auto kAborted = absl::StatusCode::kAborted;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kOutOfRange = absl::StatusCode::kOutOfRange;
constexpr MemgestId kRep{2};
constexpr MemgestId kOther{3};

protocol::MemgestDescriptor Replicated(MemgestId id) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = id;
  descriptor.r = 3;
  return descriptor;
}

class MemberEpochTest : public ::testing::Test {
 protected:
  MemberEpochTest() { AddMemgests(); }
  void AddMemgests() {
    member_.AddReplica(Replicated(kRep));
    member_.AddReplica(Replicated(kOther));
  }
  // A ring of a new epoch; those before stay where they are.
  EntryRing& Open(Epoch epoch) {
    rings_.push_back(std::make_unique<EntryRing>(std::size_t{256} << 10, epoch));
    member_.Attach(rings_.back()->MakeReader());
    return *rings_.back();
  }
  static std::uint32_t LineOf(std::uint64_t index, MemgestId memgest) {
    return static_cast<std::uint32_t>(index) + (memgest == kOther ? 640 : 0);
  }
  // Entry `index` of a log puts `value` into line `index` of its memgest.
  static void Put(EntryRing& ring, std::uint64_t index, const std::string& value,
                  MemgestId memgest = kRep) {
    EntryFields fields;
    fields.memgest = memgest;
    fields.index = index;
    fields.version = Version(Epoch(1), index);
    fields.line = LineOf(index, memgest);
    fields.size_class = 1;
    fields.offset_cells = fields.line;
    fields.key = "key";
    fields.value_length = static_cast<std::uint32_t>(value.size());
    ring.Append(fields, value.data(), value.size());
  }
  std::string ValueOf(std::uint64_t index, MemgestId memgest = kRep) {
    const std::uint32_t number = LineOf(index, memgest);
    if (!member_.lines().Has(number) || member_.lines().line(number).version == 0) return "-";
    const MetadataLine& line = member_.lines().line(number);
    const std::byte* at = member_.replica_heap(memgest)->At(line.offset_cells);
    return std::string(reinterpret_cast<const char*>(at), line.value_length);
  }
  std::vector<std::uint64_t> Tail(std::uint64_t after, MemgestId memgest = kRep) {
    std::vector<std::uint64_t> indices;
    const absl::Status status = member_.sealed()->ReadTail(
        memgest, after, [&](const EntryView& entry) { indices.push_back(entry.header.index); });
    EXPECT_OK(status);
    return indices;
  }

  TwinDevice device_;
  std::vector<std::unique_ptr<EntryRing>> rings_;
  MemberShard member_{&device_, GroupId(1), ShardId(0), 1u << 16};
};

TEST_F(MemberEpochTest, L5NothingOfTheSealedRingIsFoldedBeforeNormal) {
  EntryRing& ring = Open(Epoch(1));
  Put(ring, 1, "one");
  ring.Commit();
  Put(ring, 2, "two");
  Put(ring, 1, "other", kOther);
  ASSERT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_THAT(member_.Seal(Epoch(2), Epoch(1)),
              IsOkAndHolds(ElementsAre(SealedLog{kRep, 1, 2}, SealedLog{kOther, 0, 1})));
  EXPECT_EQ(member_.promised(), Epoch(2));
  ring.Commit();  // whatever a late control word says
  EXPECT_FALSE(member_.HasWork());
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(0));
  EXPECT_EQ(ValueOf(2), "-");
  ASSERT_OK(member_.Adopt(Epoch(2)));
  EXPECT_TRUE(member_.HasWork());
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(2));
  EXPECT_EQ(ValueOf(2), "two");
  EXPECT_EQ(ValueOf(1, kOther), "other");
  EXPECT_EQ(member_.sealed(), nullptr);
}

TEST_F(MemberEpochTest, E1WhatWasNotKnownToBeCommittedIsFoldedWithNormalAndBeforeTheNewRing) {
  EntryRing& old_ring = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 6; ++i) Put(old_ring, i, "old");
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  EntryRing& ring = Open(Epoch(2));
  Put(ring, 7, "new");
  ring.Commit();  // rule 5 forbids it before Normal; a member does not rely on that
  EXPECT_FALSE(member_.HasWork());
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(0));
  ASSERT_OK(member_.Adopt(Epoch(2)));
  EXPECT_THAT(member_.Fold(4), IsOkAndHolds(4));
  EXPECT_NE(member_.sealed(), nullptr) << "its memory is in use while entries wait in it";
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(2));
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_EQ(ValueOf(6), "old");
  EXPECT_EQ(ValueOf(7), "new");
  EXPECT_EQ(member_.sealed(), nullptr);
}

TEST_F(MemberEpochTest, E7AbandonedEpochsAreDroppedUnreadAndTheAnswerStaysTheSame) {
  EntryRing& first = Open(Epoch(1));
  Put(first, 1, "one");
  first.Commit();
  ASSERT_THAT(member_.Fold(10), IsOkAndHolds(1));
  Put(first, 2, "two");
  const std::vector<SealedLog> expected = {{kRep, 1, 2}, {kOther, 0, 0}};
  EXPECT_THAT(member_.Seal(Epoch(2), Epoch(1)), IsOkAndHolds(expected));
  EntryRing& second = Open(Epoch(2));  // another coordinator adopted something else, in vain
  Put(second, 2, "TWO");
  Put(second, 3, "THREE");
  second.Commit();
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(1)), IsOkAndHolds(expected));
  EXPECT_EQ(member_.reader(), nullptr);
  EXPECT_THAT(member_.Seal(Epoch(5), Epoch(1)), IsOkAndHolds(expected));
  EXPECT_THAT(Tail(0), ElementsAre(1, 2));
  EntryRing& last = Open(Epoch(5));
  EXPECT_THAT(member_.Seal(Epoch(5), Epoch(1)), IsOkAndHolds(expected)) << "asked again";
  EXPECT_NE(member_.reader(), nullptr) << "asking again drops nothing of the present epoch";
  Put(last, 3, "three");
  last.Commit();
  EXPECT_THAT(member_.Adopt(Epoch(2)), StatusIs(kFailedPrecondition)) << "a late Normal";
  ASSERT_OK(member_.Adopt(Epoch(5)));
  EXPECT_OK(member_.Adopt(Epoch(5))) << "again";
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_EQ(ValueOf(2), "two");
  EXPECT_EQ(ValueOf(3), "three");
}

TEST_F(MemberEpochTest, L9AnOlderEpochThanThePromisedOneIsRefused) {
  Open(Epoch(1));
  ASSERT_OK(member_.Seal(Epoch(4), Epoch(1)).status());
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(1)), StatusIs(kFailedPrecondition));
  ASSERT_OK(member_.Adopt(Epoch(4)));
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch(1)), StatusIs(kFailedPrecondition));
}

TEST_F(MemberEpochTest, OnlyTheRingOfTheLastNormalEpochIsAnsweredFor) {
  EntryRing& ring = Open(Epoch(1));
  Put(ring, 1, "one");
  // Epoch 2 became Normal without this node: what it holds may differ.
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(2)), StatusIs(kAborted));
  ASSERT_OK(member_.Seal(Epoch(3), Epoch(1)).status());
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch(2)), StatusIs(kAborted));
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch(3)), StatusIs(kAborted)) << "no ring of epoch 3 here";
  Open(Epoch(3));
  // Epoch 3 became Normal, and this node has its ring, but was not told yet whether it is of it.
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch(3)), StatusIs(kFailedPrecondition));
  ASSERT_OK(member_.Adopt(Epoch(3)));
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch(3)),
              IsOkAndHolds(ElementsAre(SealedLog{kRep, 1, 1}, SealedLog{kOther, 0, 0})));
}

TEST_F(MemberEpochTest, WhatAnEarlierEpochAdoptedIsFoldedBeforeTheNextSeal) {
  EntryRing& first = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 5; ++i) Put(first, i, "first");
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  EntryRing& second = Open(Epoch(2));
  Put(second, 6, "second");
  ASSERT_OK(member_.Adopt(Epoch(2)));
  ASSERT_THAT(member_.Fold(2), IsOkAndHolds(2));
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(2)),
              IsOkAndHolds(ElementsAre(SealedLog{kRep, 5, 6}, SealedLog{kOther, 0, 0})));
  EXPECT_EQ(ValueOf(5), "first");
  EXPECT_EQ(ValueOf(6), "-");
}

TEST_F(MemberEpochTest, SealingIsAskedAgainWhenMemoryRanOut) {
  EntryRing& first = Open(Epoch(1));
  Put(first, 1, "first");
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  Open(Epoch(2));
  ASSERT_OK(member_.Adopt(Epoch(2)));
  device_.fail_from = 0;
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(2)), StatusIs(absl::StatusCode::kResourceExhausted));
  device_.fail_from = ~std::size_t{0};
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(2)),
              IsOkAndHolds(ElementsAre(SealedLog{kRep, 1, 1}, SealedLog{kOther, 0, 0})));
}

TEST_F(MemberEpochTest, Step5EntriesThatWereFoldedAreSkippedAndAGapIsDataLoss) {
  EntryRing& first = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 3; ++i) Put(first, i, "first");
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  EntryRing& second = Open(Epoch(2));
  for (std::uint64_t i = 2; i <= 4; ++i) Put(second, i, "again");
  second.Commit();
  ASSERT_OK(member_.Adopt(Epoch(2)));
  ASSERT_THAT(member_.Fold(10), IsOkAndHolds(3));
  ASSERT_THAT(member_.Fold(10), IsOkAndHolds(3));
  EXPECT_EQ(ValueOf(3), "first");
  EXPECT_EQ(ValueOf(4), "again");
  ASSERT_OK(member_.Seal(Epoch(3), Epoch(2)).status());
  EntryRing& third = Open(Epoch(3));
  Put(third, 6, "gap");
  third.Commit();
  ASSERT_OK(member_.Adopt(Epoch(3)));
  EXPECT_THAT(member_.Fold(10), StatusIs(kDataLoss));
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch(3)), StatusIs(kDataLoss)) << "a failed member";
}

TEST_F(MemberEpochTest, E4AGapInTheTailOrAHeaderDamagedBelowTheCommitPositionFailsTheSeal) {
  EntryRing& ring = Open(Epoch(1));
  Put(ring, 1, "one");
  Put(ring, 3, "three");
  EXPECT_THAT(member_.Seal(Epoch(2), Epoch(1)), StatusIs(kDataLoss));
  EXPECT_THAT(member_.Fold(1), StatusIs(kDataLoss));
  member_.Reset(Epoch(2));
  AddMemgests();
  EntryRing& second = Open(Epoch(2));
  ASSERT_OK(member_.Adopt(Epoch(2)));
  Put(second, 1, "one");
  second.Commit();
  second.last()[kEntryHeaderSize - 1] ^= std::byte{1};
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch(2)), StatusIs(kDataLoss));
}

// It was committed, so that it is no torn WRITE, and what stands behind it counts.
TEST_F(MemberEpochTest, F10APayloadThatIsDamagedBelowTheCommitPositionIsSealedShippedAndLacked) {
  EntryRing& ring = Open(Epoch(1));
  Put(ring, 1, "one");
  Put(ring, 2, "two");
  ring.last()[kEntryHeaderSize] ^= std::byte{1};
  Put(ring, 3, "three");
  ring.Commit();
  Put(ring, 4, "four");
  EXPECT_THAT(member_.Seal(Epoch(2), Epoch(1)),
              IsOkAndHolds(ElementsAre(SealedLog{kRep, 0, 4}, SealedLog{kOther, 0, 0})));
  TailEncoder encoder;
  ASSERT_OK(
      member_.sealed()->ReadTail(kRep, 0, [&](const EntryView& entry) { encoder.Add(entry); }));
  // Its new coordinator, which lacks all of them.
  MemberShard other(&device_, GroupId(1), ShardId(0), 1u << 16);
  other.AddReplica(Replicated(kRep));
  TailDecoder decoder;
  for (const std::string& piece : encoder.Take())
    ASSERT_OK(decoder.Add(piece, [&](const EntryView& e) { return other.FoldShipped(e); }));
  ASSERT_OK(member_.Adopt(Epoch(2)));
  ASSERT_OK(member_.Fold(100).status());
  for (MemberShard* const one : {&member_, &other}) {
    EXPECT_EQ(one->applied(kRep), 4u);
    EXPECT_EQ(one->absent_count(kRep), 1u);
    EXPECT_NE(one->lines().line(LineOf(2, kRep)).flags & kAbsent, 0);
  }
}

TEST_F(MemberEpochTest, E4TheTailOfASealedRingEndsAtDamageThatNobodyCalledCommitted) {
  EntryRing& ring = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 3; ++i) Put(ring, i, "value");
  ring.last()[kEntryHeaderSize] ^= std::byte{1};
  EXPECT_THAT(member_.Seal(Epoch(2), Epoch(1)),
              IsOkAndHolds(ElementsAre(SealedLog{kRep, 0, 2}, SealedLog{kOther, 0, 0})));
}

TEST_F(MemberEpochTest, Step7AllOfTheShardIsDropped) {
  EntryRing& ring = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 3; ++i) Put(ring, i, "value");
  ring.Commit();
  ASSERT_THAT(member_.Fold(2), IsOkAndHolds(2));
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  member_.Reset(Epoch(2));
  EXPECT_EQ(device_.reserved, 0u) << "memory is given back";
  EXPECT_EQ(member_.applied(kRep), 0u);
  EXPECT_EQ(member_.reader(), nullptr);
  EXPECT_EQ(member_.sealed(), nullptr);
  EXPECT_EQ(member_.lines().granule_count(), 0u);
  EXPECT_EQ(member_.completions().client_count(), 0u);
  // It can begin anew, and its new ring waits for Normal as any.
  AddMemgests();
  EntryRing& fresh = Open(Epoch(2));
  Put(fresh, 1, "anew");
  fresh.Commit();
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(0));
  ASSERT_OK(member_.Adopt(Epoch(2)));
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_EQ(ValueOf(1), "anew");
}

TEST_F(MemberEpochTest, BeforeTheFirstNormalNothingCounts) {
  EntryRing& ring = Open(Epoch(1));
  Put(ring, 1, "nobody was told");
  EXPECT_THAT(member_.Seal(Epoch(2), Epoch()), IsOkAndHolds(IsEmpty()));
  EXPECT_EQ(member_.reader(), nullptr);
  EXPECT_THAT(member_.Seal(Epoch(3), Epoch()), IsOkAndHolds(IsEmpty()));
  EntryRing& next = Open(Epoch(3));
  ASSERT_OK(member_.Adopt(Epoch(3)));
  Put(next, 1, "first");
  next.Commit();
  EXPECT_THAT(member_.Fold(10), IsOkAndHolds(1));
  EXPECT_EQ(ValueOf(1), "first");
  EXPECT_THAT(member_.Seal(Epoch(4), Epoch()), StatusIs(kDataLoss)) << "folded without a Normal";
}

TEST_F(MemberEpochTest, TheTailOfALogIsReadFromAnyIndexAlsoWhatWasFolded) {
  EntryRing& ring = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 5; ++i) {
    Put(ring, i, "value");
    Put(ring, i, "value", kOther);
  }
  ring.Commit();
  ASSERT_THAT(member_.Fold(7), IsOkAndHolds(7));
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  EXPECT_THAT(Tail(0), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Tail(2, kOther), ElementsAre(3, 4, 5));
  EXPECT_THAT(Tail(5), IsEmpty());
  EXPECT_THAT(Tail(9), IsEmpty());
  EXPECT_THAT(Tail(0, MemgestId(9)), IsEmpty());
}

TEST_F(MemberEpochTest, Step5AnEntryThatIsInNoRingAnyMoreIsOutOfRange) {
  EntryRing& first = Open(Epoch(1));
  for (std::uint64_t i = 1; i <= 3; ++i) Put(first, i, "value");
  ASSERT_OK(member_.Seal(Epoch(2), Epoch(1)).status());
  EntryRing& second = Open(Epoch(2));
  for (std::uint64_t i = 4; i <= 5; ++i) Put(second, i, "value");
  ASSERT_OK(member_.Adopt(Epoch(2)));
  ASSERT_THAT(member_.Fold(10), IsOkAndHolds(3));
  ASSERT_OK(member_.Seal(Epoch(3), Epoch(2)).status());
  int shown = 0;
  const auto count = [&](const EntryView&) { ++shown; };
  EXPECT_THAT(member_.sealed()->ReadTail(kRep, 2, count), StatusIs(kOutOfRange));
  EXPECT_EQ(shown, 0);
  EXPECT_THAT(Tail(3), ElementsAre(4, 5));
}

}  // namespace
}  // namespace ring::memgest
