// The end of a ring: LogReader::Seal, CommitTail and ReadBack.
#include <string>
#include <vector>

#include "memgest/log_reader.h"
#include "ring/base/random.h"
#include "tests/memgest/log_link.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

std::string ValueOf(std::uint64_t index, std::size_t size) {
  std::string value(size, '\0');
  for (std::size_t i = 0; i < size; ++i) value[i] = static_cast<char>(index * 7 + i);
  return value;
}
// Appends and posts the entry with the next index; commits it, as the member is to hear.
void Append(LogLink& link, std::size_t size, bool commit) {
  EntryFields fields;
  fields.index = link.order + 1;
  fields.key = "key";
  const std::string value = ValueOf(fields.index, size);
  link.Append(fields, value);
  ASSERT_OK(link.writer->Flush());
  link.Poll();
  if (!commit) return;
  link.writer->AdvanceCommit(link.order + 1);
  link.writer->ShareCommit();
}
std::vector<std::uint64_t> FoldAll(LogReader& reader) {
  std::vector<std::uint64_t> indices;
  EntryView entry;
  while (reader.Next(&entry).value()) {
    indices.push_back(entry.header.index);
    reader.Consume(entry);
  }
  return indices;
}
std::vector<std::uint64_t> Back(const LogReader& reader) {
  std::vector<std::uint64_t> indices;
  reader.ReadBack([&](const EntryView& entry) { indices.push_back(entry.header.index); });
  return indices;
}
void Nothing(const EntryView&) {}

TEST(LogSeal, L5ASealedRingGivesItsTailOnlyOnceItIsCommitted) {
  LogLink link;
  for (int i = 0; i < 5; ++i) Append(link, 100, i < 3);
  EntryView entry;
  ASSERT_THAT(link.reader->Next(&entry), IsOkAndHolds(true));
  link.reader->Consume(entry);
  std::vector<std::uint64_t> seen;
  ASSERT_OK_AND_ASSIGN(const LogTail tail, link.reader->Seal([&](const EntryView& view) {
    seen.push_back(view.header.index);
  }));
  EXPECT_EQ(tail.position, link.writer->position());
  EXPECT_THAT(seen, ::testing::ElementsAre(2, 3, 4, 5));
  // Not even what was known to be committed, and whatever the control word becomes.
  link.SetControlWord(link.writer->position());
  EXPECT_FALSE(link.reader->HasCommitted());
  EXPECT_THAT(link.reader->Next(&entry), IsOkAndHolds(false));
  EXPECT_FALSE(link.reader->drained());
  EXPECT_THAT(link.reader->ShareCredit(true), StatusIs(absl::StatusCode::kFailedPrecondition));
  link.reader->CommitTail();
  link.SetControlWord(0);
  EXPECT_THAT(FoldAll(*link.reader), ::testing::ElementsAre(2, 3, 4, 5));
  EXPECT_TRUE(link.reader->drained());
}

TEST(LogSeal, E4TheTailEndsBeforeATornEntry) {
  LogLink link;
  for (int i = 0; i < 4; ++i) Append(link, 100, false);
  const std::uint64_t end = link.writer->position();
  link.to_member.fail_after = link.to_member.executed;
  link.to_member.tear_at = 200;
  Append(link, 100, false);
  ASSERT_OK_AND_ASSIGN(const LogTail tail, link.reader->Seal(Nothing));
  EXPECT_EQ(tail.position, end);
  link.reader->CommitTail();
  EXPECT_THAT(FoldAll(*link.reader), ::testing::ElementsAre(1, 2, 3, 4));
}

TEST(LogSeal, E4ARingThatLostWhatWasCommittedIsNotSealed) {
  LogLink link;
  for (int i = 0; i < 4; ++i) Append(link, 100, i < 3);
  link.ring()[link.writer->commit_position() - 10] ^= std::byte{1};
  EXPECT_THAT(link.reader->Seal(Nothing), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(LogSeal, WhatWasFoldedCanBeReadAgain) {
  LogLink link;
  for (int i = 0; i < 40; ++i) Append(link, 1000, i < 30);
  EXPECT_EQ(FoldAll(*link.reader).size(), 30U);
  ASSERT_OK(link.reader->Seal(Nothing).status());
  std::uint64_t index = 0;
  link.reader->ReadBack([&](const EntryView& entry) {
    ASSERT_EQ(entry.header.index, ++index);
    const std::string expected = ValueOf(index, 1000);
    EXPECT_EQ(std::memcmp(entry.payload, expected.data(), expected.size()), 0);
  });
  EXPECT_EQ(index, 40U);
}

TEST(LogSeal, E4NothingBeforeDamageIsReadAgain) {
  LogLink link;
  std::vector<std::uint64_t> positions;
  for (int i = 0; i < 40; ++i) {
    positions.push_back(link.writer->position());
    Append(link, 1000, i < 30);
  }
  EXPECT_EQ(FoldAll(*link.reader).size(), 30U);
  link.ring()[positions[17] + kEntryHeaderSize + 5] ^= std::byte{1};  // entry 18's payload
  ASSERT_OK(link.reader->Seal(Nothing).status());
  const std::vector<std::uint64_t> back = Back(*link.reader);
  ASSERT_FALSE(back.empty());
  EXPECT_GT(back.front(), 18U);
  // A remembered place is at most a sixteenth of the ring away.
  EXPECT_LE(back.front(), 18U + link.ring_size() / 16 / 1000 + 1);
  EXPECT_EQ(back.back(), 40U);
}

// The newest entries overwrite the oldest, some in part: what is shown is a run without a gap that
// ends with the tail and has every byte as it was appended.
TEST(LogSeal, E4OnlyWhatTheNewestEntriesLeftWholeIsReadAgain) {
  SeededRandom random(ring::testing::SeedFor("read back"));
  for (int run = 0; run < 30; ++run) {
    LogLink link(kRingSizeMin + 64 * random.Below(40));
    std::vector<std::size_t> sizes;
    const std::uint64_t end = link.ring_size() * (1 + random.Below(3)) + random.Below(200'000);
    while (link.writer->position() < end) {
      sizes.push_back(random.Below(random.Below(8) == 0 ? 20'000 : 2000));
      Append(link, sizes.back(), true);
      FoldAll(*link.reader);
      ASSERT_OK(link.reader->ShareCredit(true));
      link.to_coordinator.completions.clear();
    }
    const std::uint64_t folded = sizes.size();
    for (int i = 0; i < 10; ++i) {  // behind the folded position, over old entries
      sizes.push_back(random.Below(3000));
      Append(link, sizes.back(), false);
    }
    if (run % 2 == 0) {
      link.to_member.fail_after = link.to_member.executed;
      link.to_member.tear_at = 64 * (1 + random.Below(20));
      Append(link, 3000, false);  // torn: an old entry is damaged, and none is there instead
    }
    ASSERT_OK(link.reader->Seal(Nothing).status());
    std::uint64_t last = 0;
    std::uint64_t bytes = 0;
    link.reader->ReadBack([&](const EntryView& entry) {
      ASSERT_TRUE(last == 0 || entry.header.index == last + 1) << "last=" << last;
      last = entry.header.index;
      bytes += entry.size;
      const std::string expected = ValueOf(last, sizes[last - 1]);
      ASSERT_EQ(entry.header.payload_length, expected.size());
      ASSERT_EQ(std::memcmp(entry.payload, expected.data(), expected.size()), 0);
    });
    EXPECT_EQ(last, sizes.size());
    EXPECT_GT(last, folded);
    // All but a sixteenth, the PAD at the end, and what straddles.
    EXPECT_GE(bytes, link.ring_size() - link.ring_size() / 16 - 4 * 21'000) << "run=" << run;
  }
}

}  // namespace
}  // namespace ring::memgest
