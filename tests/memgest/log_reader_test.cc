#include "memgest/log_reader.h"

#include <deque>
#include <string>
#include <vector>

#include "ring/base/random.h"
#include "tests/memgest/log_link.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

// Entries 1..count with payloads of `size` bytes, posted and acknowledged.
void Fill(LogLink& link, int count, std::size_t size = 1000) {
  const std::string value(size, 'v');
  for (int i = 0; i < count; ++i) {
    link.Append(Put(link.order + 1), value);
    ASSERT_OK(link.writer->Flush());
    link.Poll();
  }
}
void Commit(LogLink& link, std::uint64_t order) {
  link.writer->AdvanceCommit(order + 1);
  link.writer->ShareCommit();
}
std::size_t FoldAll(LogLink& link) {
  std::size_t count = 0;
  EntryView entry;
  for (; link.reader->Next(&entry).value(); ++count) link.reader->Consume(entry);
  return count;
}

TEST(LogReader, E9GivesOnlyWhatIsCommitted) {
  LogLink link;
  EntryView entry;
  EXPECT_FALSE(link.reader->HasCommitted());
  EXPECT_THAT(link.reader->Next(&entry), IsOkAndHolds(false));
  Fill(link, 5);
  EXPECT_FALSE(link.reader->HasCommitted());
  EXPECT_THAT(link.reader->Next(&entry), IsOkAndHolds(false));
  Commit(link, 3);
  EXPECT_TRUE(link.reader->HasCommitted());
  for (std::uint64_t index = 1; index <= 3; ++index) {
    ASSERT_THAT(link.reader->Next(&entry), IsOkAndHolds(true));
    ASSERT_THAT(link.reader->Next(&entry), IsOkAndHolds(true)) << "the same one until Consume";
    EXPECT_EQ(entry.header.index, index);
    link.reader->Consume(entry);
  }
  EXPECT_FALSE(link.reader->HasCommitted());
  EXPECT_THAT(link.reader->Next(&entry), IsOkAndHolds(false));
  EXPECT_EQ(link.reader->folded_position(), link.writer->commit_position());
}

// The header's own word about the commit position counts for nothing (E9).
TEST(LogReader, E9TheCommitPositionComesFromTheControlWordAlone) {
  LogLink link;
  Fill(link, 2);
  link.writer->AdvanceCommit(3);  // told to nobody
  Fill(link, 1);
  EXPECT_EQ(link.reader->commit_position(), 0U);
  EXPECT_EQ(link.ValidTail(), link.writer->position());
  EXPECT_EQ(FoldAll(link), 0U);
}

TEST(LogReader, WrongControlWordIsDataLossAndMovesNothing) {
  LogLink link;
  Fill(link, 5);
  Commit(link, 4);
  const std::uint64_t committed = link.ControlWord();
  EntryView entry;
  ASSERT_THAT(link.reader->Next(&entry), IsOkAndHolds(true));
  link.reader->Consume(entry);
  const std::uint64_t folded = link.reader->folded_position();
  const std::uint64_t wrong[] = {
      0,                               // back, before what is folded
      committed - entry.size,          // back
      committed + 8,                   // not a multiple of 64
      folded + link.ring_size() + 64,  // beyond the ring
      ~std::uint64_t{0} - 63,
  };
  for (const std::uint64_t word : wrong) {
    link.SetControlWord(word);
    EXPECT_TRUE(link.reader->HasCommitted());
    EXPECT_THAT(link.reader->Next(&entry), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_EQ(link.reader->commit_position(), committed);
    EXPECT_EQ(link.reader->folded_position(), folded);
  }
  // Within an entry, and beyond what was written.
  for (const std::uint64_t word : {committed + 64, link.writer->position() + 64}) {
    LogLink other;
    Fill(other, 5);
    other.SetControlWord(word);
    absl::StatusOr<bool> next = true;
    for (int i = 0; i < 10 && next.ok() && *next; ++i) {
      next = other.reader->Next(&entry);
      if (next.ok() && *next) other.reader->Consume(entry);
    }
    EXPECT_THAT(next, StatusIs(absl::StatusCode::kDataLoss));
  }
  link.SetControlWord(committed);
  EXPECT_EQ(FoldAll(link), 3U);
}

TEST(LogReader, DamageBelowTheCommitPositionIsDataLossAndTheReaderStays) {
  LogLink link;
  Fill(link, 3);
  Commit(link, 3);
  EntryView entry;
  ASSERT_THAT(link.reader->Next(&entry), IsOkAndHolds(true));
  link.reader->Consume(entry);
  const std::uint64_t folded = link.reader->folded_position();
  // The header, the payload, the trailer of the second entry.
  for (const std::size_t at : {std::size_t{30}, kEntryHeaderSize + 500, entry.size - 60}) {
    link.ring()[folded + at] ^= std::byte{4};
    EXPECT_THAT(link.reader->Next(&entry), StatusIs(absl::StatusCode::kDataLoss)) << "at=" << at;
    EXPECT_THAT(link.reader->Next(&entry), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_EQ(link.reader->folded_position(), folded);
    link.ring()[folded + at] ^= std::byte{4};
  }
  EXPECT_EQ(FoldAll(link), 2U);
}

TEST(LogReader, APadThatStopsBeforeTheRingsEndIsDataLoss) {
  LogLink link;
  EntryFields fields;
  fields.type = EntryType::kPad;
  fields.payload_length = 640;
  const std::size_t head_size = BuildEntryHead(fields, Epoch(5), link.ring());
  SealEntryHead(link.ring(), head_size, 0, 0, 0, link.ring());
  link.SetControlWord(EntrySize(fields));
  EntryView entry;
  EXPECT_THAT(link.reader->Next(&entry), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(link.ValidTail(), 0U);
}

TEST(LogReader, E4TornWritesEndTheTail) {
  const std::string value(1000, 'v');
  EntryFields fields = Put(1);
  fields.payload_length = 1000;
  const std::size_t size = EntrySize(fields);
  for (std::size_t torn = 0; torn < size; torn += 8) {
    LogLink link;
    std::memset(link.ring(), 0xa5, link.ring_size());  // what other laps left
    Fill(link, 2);
    link.to_member.fail_after = link.to_member.executed;
    link.to_member.tear_at = torn;
    link.Append(Put(3), value);
    ASSERT_OK(link.writer->Flush());
    link.Poll();
    EXPECT_TRUE(link.writer->broken());
    EXPECT_EQ(link.ValidTail(), 2 * size) << "torn=" << torn;
  }
}

TEST(LogReader, E4ALostPrefixEndsTheTailThoughLaterBytesAreThere) {
  LogLink link;
  Fill(link, 3);
  EntryFields fields = Put(1);
  fields.payload_length = 1000;
  const std::size_t size = EntrySize(fields);
  std::memset(link.ring() + size, 0, 64);  // the second entry's first line has not landed
  EXPECT_EQ(link.ValidTail(), size);
}

TEST(LogReader, E4OldEpochBytesBehindTheTailAreNoEntries) {
  LogLink link;
  Fill(link, 10);
  // A ring belongs to one epoch: another one's reader sees nothing in the same bytes.
  link.reader_options.epoch = Epoch(6);
  link.reader = std::make_unique<LogReader>(link.reader_options);
  EXPECT_EQ(link.ValidTail(), 0U);
  // And where a new epoch's entries overwrite them, the tail ends with the new ones.
  link.writer_options.epoch = Epoch(6);
  link.writer = std::make_unique<LogWriter>(link.writer_options);
  link.order = 0;
  Fill(link, 4);
  EXPECT_EQ(link.ValidTail(), link.writer->position());
}

TEST(LogReader, FindTailShowsEveryEntryBehindTheFoldedPosition) {
  LogLink link;
  Fill(link, 12);
  Commit(link, 5);
  EXPECT_EQ(FoldAll(link), 5U);
  std::vector<std::uint64_t> indices;
  const LogTail tail =
      link.reader->FindTail([&](const EntryView& entry) { indices.push_back(entry.header.index); });
  EXPECT_THAT(indices, ::testing::ElementsAre(6, 7, 8, 9, 10, 11, 12));
  EXPECT_EQ(tail.position, link.writer->position());
}

// The writer's own word, which says less, takes nothing back; it goes on when it says more.
TEST(LogReader, S7AnotherMembersWordCommitsWhatIsHereAndNothingBehindIt) {
  LogLink link;
  Fill(link, 12);
  Commit(link, 5);
  EXPECT_EQ(FoldAll(link), 5U);
  const MemgestId memgest(Put(1).memgest);
  EXPECT_TRUE(link.reader->CommitThrough(memgest, 9));
  EXPECT_EQ(FoldAll(link), 4U);
  EXPECT_EQ(FoldAll(link), 0U);
  EXPECT_FALSE(link.reader->CommitThrough(memgest, 13)) << "is not here";
  EXPECT_FALSE(link.reader->CommitThrough(MemgestId(memgest.value() + 1), 10));
  EXPECT_FALSE(link.reader->HasCommitted());
  Commit(link, 7);
  EXPECT_EQ(FoldAll(link), 0U);
  Commit(link, 12);
  EXPECT_EQ(FoldAll(link), 3U);
}

// ... over the ring's end, time and again.
TEST(LogReader, S7AnotherMembersWordIsAPlaceBetweenEntriesEverywhere) {
  LogLink link;
  const MemgestId memgest(Put(1).memgest);
  const std::uint64_t laps = 3;
  while (link.writer->position() < laps * link.ring_size()) {
    ASSERT_TRUE(link.writer->HasRoom(4096, false));
    Fill(link, 1, 300 + link.order % 7 * 100);
    ASSERT_TRUE(link.reader->CommitThrough(memgest, link.order));
    ASSERT_EQ(FoldAll(link), 1U);
    link.writer->AdvanceCommit(link.order + 1);
    ASSERT_OK(link.reader->ShareCredit(true));
  }
}

TEST(LogReader, E5CreditGoesBackEveryEighthOrWhenIdle) {
  LogLink link;
  Fill(link, 1);
  Commit(link, 1);
  EXPECT_EQ(FoldAll(link), 1U);
  ASSERT_OK(link.reader->ShareCredit(false));
  EXPECT_EQ(link.credit, 0U);
  ASSERT_OK(link.reader->ShareCredit(true));
  EXPECT_EQ(link.credit, link.reader->folded_position());
  ASSERT_OK(link.reader->ShareCredit(true));
  EXPECT_EQ(link.to_coordinator.words, 1U) << "nothing new";
  const std::uint64_t before = link.credit;
  while (link.credit == before) {
    Fill(link, 1);
    Commit(link, link.order);
    EXPECT_EQ(FoldAll(link), 1U);
    ASSERT_OK(link.reader->ShareCredit(false));
    ASSERT_LE(link.reader->folded_position() - before, link.ring_size() / 8 + 2048);
  }
  EXPECT_GE(link.credit - before, link.ring_size() / 8);
  // A refusal is told, and the credit is told again later.
  Fill(link, 1);
  Commit(link, link.order);
  EXPECT_EQ(FoldAll(link), 1U);
  link.to_coordinator.refuse = absl::StatusCode::kResourceExhausted;
  EXPECT_THAT(link.reader->ShareCredit(true), StatusIs(absl::StatusCode::kResourceExhausted));
  link.to_coordinator.refuse = absl::StatusCode::kOk;
  ASSERT_OK(link.reader->ShareCredit(true));
  EXPECT_EQ(link.credit, link.reader->folded_position());
}

TEST(LogReader, CreditsDoNotFillTheSendQueue) {
  LogLink link;
  link.to_coordinator.depth = 2 * LogReader::kCreditSignalEvery;
  for (int i = 0; i < 200; ++i) {
    Fill(link, 1);
    Commit(link, link.order);
    EXPECT_EQ(FoldAll(link), 1U);
    ASSERT_OK(link.reader->ShareCredit(true));
  }
  EXPECT_EQ(link.to_coordinator.completions.size(), 200 / LogReader::kCreditSignalEvery);
}

// E5: the ring is full, no further entry can carry the commit position, nothing else happens.
TEST(LogReader, E5FullRingWithAnIdleCoordinatorRecoversByTheControlWord) {
  LogLink link;
  EntryFields fields = Put(1);
  fields.payload_length = 1000;
  std::size_t count = 0;
  for (; link.writer->HasRoom(EntrySize(fields), false); ++count) Fill(link, 1);
  EXPECT_EQ(FoldAll(link), 0U);
  EXPECT_FALSE(link.writer->HasRoom(EntrySize(fields), false));
  Commit(link, link.order);
  EXPECT_EQ(FoldAll(link), count);
  ASSERT_OK(link.reader->ShareCredit(true));
  EXPECT_TRUE(link.writer->HasRoom(EntrySize(fields), false));
}

TEST(LogReader, S10LargestPayloadPassesFromFourPieces) {
  LogLink link;
  SeededRandom random(7);
  std::string bytes(kPayloadSizeMax, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next64());
  EntryFields fields = Put(1);
  fields.type = EntryType::kPart;
  fields.payload_length = kPayloadSizeMax;
  for (std::uint64_t index = 1; index <= 20; ++index) {
    fields.index = index;
    ASSERT_TRUE(link.writer->HasRoom(EntrySize(fields), false)) << "index=" << index;
    const std::size_t head_size = BuildEntryHead(fields, Epoch(5), link.head);
    const rdma::Sge sges[] = {LogLink::SgeOf(bytes.data(), 1), LogLink::SgeOf(&bytes[1], 4095),
                              LogLink::SgeOf(&bytes[4096], 0),
                              LogLink::SgeOf(&bytes[4096], kPayloadSizeMax - 4096)};
    EntryPayload payload{.sges = sges, .crc = Crc32c(bytes.data(), bytes.size())};
    link.writer->Append(index, link.head, head_size, bytes.size(), payload);
    ASSERT_OK(link.writer->Flush());
    link.Poll();
    Commit(link, index);
    EntryView entry;
    ASSERT_THAT(link.reader->Next(&entry), IsOkAndHolds(true));
    EXPECT_EQ(std::memcmp(entry.payload, bytes.data(), bytes.size()), 0);
    link.reader->Consume(entry);
    ASSERT_OK(link.reader->ShareCredit(true));
  }
}

struct Sent {
  EntryType type;
  std::uint64_t index;
  std::string key;
  std::string payload;
  std::size_t collect;
};

// Writer and reader against a queue, over many laps: every size, PADs, skipped lines, held-back
// requests, late commits, late folds, late credit.
void RunLaps(LogLink& link, Random& random, std::uint64_t laps) {
  std::deque<Sent> sent;
  std::uint64_t index = 0;
  std::uint64_t committed = 0;
  while (link.writer->position() < laps * link.ring_size()) {
    for (std::uint64_t n = random.Below(8); n > 0; --n) {
      EntryFields fields;
      fields.type = random.Below(2) == 0 ? EntryType::kPut : EntryType::kCollect;
      const std::string key(1 + random.Below(random.Below(4) == 0 ? 1024 : 30), 'k');
      fields.key = key;
      std::vector<CollectItem> collect(random.Below(kCollectCountMax + 1));
      fields.collect = collect;
      const std::size_t most = random.Below(10) == 0 ? kPayloadSizeMax : 3000;
      std::string payload(random.Below(most + 1), static_cast<char>(index));
      fields.payload_length = static_cast<std::uint32_t>(payload.size());
      if (!link.writer->HasRoom(EntrySize(fields), random.Below(4) == 0)) break;
      fields.index = ++index;
      // The payload belongs to the device until its ack: it stays where the queue has it.
      sent.push_back({fields.type, index, key, std::move(payload), collect.size()});
      link.Append(fields, sent.back().payload);
    }
    ASSERT_OK(link.writer->Flush());
    if (random.Below(2) == 0) link.to_member.Run();
    link.Poll();
    committed += random.Below(link.writer->acked_order() - committed + 1);
    link.writer->AdvanceCommit(committed + 1);
    link.writer->ShareCommit();
    if (random.Below(2) == 0) link.to_member.Run();
    ASSERT_FALSE(link.writer->broken());
    EntryView entry;
    for (std::uint64_t n = random.Below(12); n > 0; --n) {
      ASSERT_OK_AND_ASSIGN(const bool found, link.reader->Next(&entry));
      if (!found) break;
      ASSERT_FALSE(sent.empty());
      const Sent& expected = sent.front();
      ASSERT_EQ(entry.header.index, expected.index);
      ASSERT_LE(entry.header.index, committed);
      ASSERT_EQ(entry.header.type, expected.type);
      ASSERT_EQ(entry.key, expected.key);
      ASSERT_EQ(entry.collect.size(), expected.collect);
      ASSERT_EQ(
          std::string(reinterpret_cast<const char*>(entry.payload), entry.header.payload_length),
          expected.payload);
      link.reader->Consume(entry);
      sent.pop_front();
    }
    if (random.Below(2) == 0) {
      ASSERT_OK(link.reader->ShareCredit(random.Below(2) == 0));
    }
    link.to_coordinator.completions.clear();
    if (!sent.empty() && random.Below(50) == 0) {
      // All that was executed is valid, whatever stands behind it from the lap before.
      link.to_member.Run();
      EXPECT_EQ(link.ValidTail(), link.writer->position());
    }
  }
}

TEST(LogReader, E4E5EverythingArrivesOverManyLaps) {
  SeededRandom random(ring::testing::SeedFor("laps"));
  for (int run = 0; run < 6; ++run) {
    LogLink link(kRingSizeMin + 64 * random.Below(40), 32 * 1024);
    link.to_member.hold = run % 3 != 0;
    RunLaps(link, random, 40);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// A ring whose end leaves exactly one line, in which no header fits.
TEST(LogReader, ALineThatHoldsNoHeaderIsSkippedByBothEnds) {
  LogLink link(kRingSizeMin + 64);
  EntryFields fields;
  fields.type = EntryType::kRecord;
  fields.payload_length = 0;
  ASSERT_EQ(EntrySize(fields), 192U);
  std::uint64_t skips = 0;
  std::uint64_t pads = 0;
  for (int i = 0; i < 5000; ++i) {
    fields.index = link.order + 1;
    ASSERT_TRUE(link.writer->HasRoom(192, false));
    const std::uint64_t before = link.writer->position();
    link.Append(fields, {});
    const std::uint64_t moved = link.writer->position() - before;
    skips += moved == 192 + 64 ? 1U : 0U;
    pads += moved == 192 + 128 ? 1U : 0U;
    ASSERT_OK(link.writer->Flush());
    link.Poll();
    Commit(link, link.order);
    ASSERT_EQ(FoldAll(link), 1U);
    ASSERT_EQ(link.reader->folded_position(), link.writer->position());
    ASSERT_OK(link.reader->ShareCredit(true));
    link.to_coordinator.completions.clear();
  }
  EXPECT_GT(skips + pads, 0U);
}

}  // namespace
}  // namespace ring::memgest
