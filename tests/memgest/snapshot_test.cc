#include "memgest/snapshot.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "memgest/size_class.h"
#include "ring/base/crc32c.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr MemgestId kMemgest{7};

// Lines of all shapes, keys of all lengths, in three granules.
void Fill(LineTable* lines, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t number = i * 3;
    const bool large = i % 5 == 4;
    if (number % 64 > 60) continue;
    const std::uint32_t granule = number / 64;
    const std::uint8_t size_class = granule % 2 == 0 ? 0 : 4;
    ASSERT_OK(lines->EnsureLine(number, kMemgest, size_class,
                                size_class == 0 ? 0 : granule * 1000 + number % 64 * 4));
    MetadataLine& line = lines->line(number);
    line = MetadataLine{};
    line.version = 1000 + i;
    line.memgest = kMemgest.value();
    line.size_class = size_class;
    line.offset_cells = size_class == 0 ? 0 : granule * 1000 + number % 64 * 4;
    line.flags = kLive | kCommitted;
    lines->SetKey(number, std::string(1 + i * 37 % 1024, static_cast<char>(i)));
    lines->TakeLine(number);
    if (size_class != 0) {
      line.value_length = i % 257;
      line.value_crc = i * 17;
      line.expiry_ns = i;
    } else if (large) {
      std::vector<Range> ranges(1 + i * 7 % 1024, Range{64 * i, 4096});
      lines->SetRanges(number, ranges);
      line.value_length = 4096 * 64;
    } else {
      line.flags |= kTombstone;
    }
  }
}

void AddAll(const LineTable& lines, SnapshotWriter* writer) {
  for (std::uint32_t granule = 0; granule < lines.granule_count(); ++granule) {
    const std::uint32_t first = granule * kLinesPerGranule;
    if (!lines.Has(first)) continue;
    writer->AddGranule(lines, granule);
    writer->AddLines(lines, granule, lines.granule(first).taken);
  }
}

// What arrives of a line must be what it is, but for what each owner sets by itself.
void ExpectSame(const LineTable& lines, std::uint32_t number, const MetadataLine& came,
                absl::string_view key, absl::Span<const Range> ranges) {
  const MetadataLine& line = lines.line(number);
  EXPECT_EQ(came.version, line.version);
  EXPECT_EQ(came.value_crc, line.value_crc);
  EXPECT_EQ(came.value_length, line.value_length);
  EXPECT_EQ(came.expiry_ns, line.expiry_ns);
  EXPECT_EQ(came.offset_cells, line.offset_cells);
  EXPECT_EQ(came.memgest, line.memgest);
  EXPECT_EQ(came.size_class, line.size_class);
  EXPECT_EQ(came.flags, line.flags & ~(kLive | kCommitted));
  EXPECT_EQ(came.pins, 0u);
  EXPECT_EQ(came.prev, kNoLine);
  EXPECT_EQ(key, lines.Key(number));
  ASSERT_EQ(ranges.size(), lines.Ranges(number).size());
  for (std::size_t r = 0; r < ranges.size(); ++r)
    EXPECT_EQ(ranges[r].offset_cells, lines.Ranges(number)[r].offset_cells);
}

TEST(Snapshot, EveryLineArrivesInPiecesOfBoundedSizeThatCanBeReadAlone) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  Fill(&lines, 700);
  SnapshotWriter writer(3);
  writer.BeginLog({kMemgest, 55, 66});
  AddAll(lines, &writer);
  const std::vector<std::string> snapshot = AllPieces(writer);
  ASSERT_GT(snapshot.size(), 10u);
  std::set<std::uint32_t> arrived;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < snapshot.size(); ++i) {
    EXPECT_LE(snapshot[i].size(), kPieceSizeMax);
    ASSERT_OK_AND_ASSIGN(SnapshotReader reader, SnapshotReader::Open(snapshot[i]));
    EXPECT_EQ(reader.id(), 3u);
    EXPECT_EQ(reader.number(), i);
    EXPECT_EQ(reader.last(), i + 1 == snapshot.size());
    SnapshotItem item;
    bool granule_before = false;
    while (true) {
      ASSERT_OK_AND_ASSIGN(const bool more, reader.Next(&item));
      if (!more) break;
      const bool granule = item.kind == SnapshotItem::Kind::kGranule;
      EXPECT_FALSE(granule && granule_before) << "only what the next line is of is repeated";
      granule_before = granule;
      EXPECT_EQ(item.log.memgest, kMemgest);
      EXPECT_EQ(item.log.applied, 55u);
      EXPECT_EQ(item.log.end_cells, 66u);
      if (item.kind == SnapshotItem::Kind::kLine) {
        EXPECT_TRUE(arrived.insert(item.number).second);
        ExpectSame(lines, item.number, item.line, item.key, item.ranges);
      } else if (item.kind == SnapshotItem::Kind::kLines) {
        ForEachLine(item, [&](std::uint32_t number, const MetadataLine& line) {
          ++whole;
          EXPECT_TRUE(arrived.insert(number).second);
          ExpectSame(lines, number, line, {line.key, line.key_length}, {});
        });
      }
    }
  }
  EXPECT_GT(whole, 5u);
  EXPECT_GT(arrived.size(), 3 * whole) << "long keys, too";
  for (std::uint32_t number = 0; number < 2100; ++number) {
    const bool here = lines.Has(number) && lines.line(number).version != 0;
    EXPECT_EQ(arrived.contains(number), here) << number;
  }
}

TEST(Snapshot, SmallPiecesHaveARecordEach) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  Fill(&lines, 200);
  SnapshotWriter writer(3, /*piece_size=*/0);
  writer.BeginLog({kMemgest, 55, 66});
  AddAll(lines, &writer);
  std::set<std::uint32_t> arrived;
  std::size_t whole = 0;
  for (const std::string& piece : AllPieces(writer)) {
    ASSERT_OK_AND_ASSIGN(SnapshotReader reader, SnapshotReader::Open(piece));
    SnapshotItem item;
    const std::size_t before = arrived.size();
    while (true) {
      ASSERT_OK_AND_ASSIGN(const bool more, reader.Next(&item));
      if (!more) break;
      EXPECT_EQ(item.log.end_cells, 66u);
      if (item.kind == SnapshotItem::Kind::kLine) {
        EXPECT_TRUE(arrived.insert(item.number).second);
        ExpectSame(lines, item.number, item.line, item.key, item.ranges);
      } else if (item.kind == SnapshotItem::Kind::kLines) {
        ForEachLine(item, [&](std::uint32_t number, const MetadataLine&) {
          ++whole;
          EXPECT_TRUE(arrived.insert(number).second);
        });
      }
    }
    EXPECT_LE(arrived.size(), before + 1);
  }
  EXPECT_GT(whole, 2u) << "lines as they are, too";
  for (std::uint32_t number = 0; number < 600; ++number) {
    const bool here = lines.Has(number) && lines.line(number).version != 0;
    EXPECT_EQ(arrived.contains(number), here) << number;
  }
}

TEST(Snapshot, LinesWithShortKeysTravelByTheGranule) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  constexpr std::uint32_t kCount = 3000;
  for (std::uint32_t n = 0; n < kCount; ++n) {
    ASSERT_OK(lines.EnsureLine(n, kMemgest, 1, n));
    lines.line(n).version = n + 1;
    lines.line(n).memgest = kMemgest.value();
    lines.line(n).size_class = 1;
    lines.line(n).offset_cells = n;
    lines.SetKey(n, absl::StrCat("key ", n));
    lines.TakeLine(n);
  }
  SnapshotWriter writer(3);
  writer.BeginLog({kMemgest, 55, 66});
  AddAll(lines, &writer);
  const std::vector<std::string> snapshot = AllPieces(writer);
  EXPECT_EQ(snapshot.size(), 4u) << "200 KB";
  std::uint32_t next = 0;
  for (const std::string& piece : snapshot) {
    EXPECT_LE(piece.size(), kPieceSizeMax);
    ASSERT_OK_AND_ASSIGN(SnapshotReader reader, SnapshotReader::Open(piece));
    SnapshotItem item;
    while (true) {
      ASSERT_OK_AND_ASSIGN(const bool more, reader.Next(&item));
      if (!more) break;
      ASSERT_NE(item.kind, SnapshotItem::Kind::kLine);
      if (item.kind != SnapshotItem::Kind::kLines) continue;
      ForEachLine(item, [&](std::uint32_t number, const MetadataLine& line) {
        EXPECT_EQ(number, next++);
        ExpectSame(lines, number, line, {line.key, line.key_length}, {});
      });
    }
  }
  EXPECT_EQ(next, kCount);
}

TEST(Snapshot, AnEmptyOneIsAPieceToo) {
  SnapshotWriter writer(1);
  const std::vector<std::string> snapshot = AllPieces(writer);
  ASSERT_EQ(snapshot.size(), 1u);
  ASSERT_OK_AND_ASSIGN(SnapshotReader reader, SnapshotReader::Open(snapshot[0]));
  EXPECT_TRUE(reader.last());
  SnapshotItem item;
  EXPECT_THAT(reader.Next(&item), ring::testing::IsOkAndHolds(false));
}

// A piece with a log, a granule, a line of class 4 and one with a range, one that is whole, and a
// record.
std::string SmallPiece() {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  Fill(&lines, 30);
  SnapshotWriter writer(3);
  writer.BeginLog({kMemgest, 55, 66});
  writer.AddGranule(lines, 0);
  writer.AddLines(lines, 0, std::uint64_t{1} << 12);  // large
  writer.AddGranule(lines, 1);
  lines.SetKey(69, "short");
  writer.AddLines(lines, 1, std::uint64_t{1} << 2 | std::uint64_t{1} << 5);
  CompletionTable completions;
  CompletionTable::Client* client = completions.FindOrAdd({5, 6});
  CompletionTable::Finish(client, 10,
                          {.seq = 20, .version = 9, .request_crc = 1, .memgest = kMemgest.value()});
  const std::vector<SnapshotLog> logs = {{kMemgest, 55, 66}};
  writer.AddCompletions(completions, logs);
  return AllPieces(writer)[0];
}
absl::Status ReadAll(const std::string& piece) {
  absl::StatusOr<SnapshotReader> reader = SnapshotReader::Open(piece);
  if (!reader.ok()) return reader.status();
  SnapshotItem item;
  while (true) {
    const absl::StatusOr<bool> more = reader->Next(&item);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
  }
}
void Repair(std::string* piece) {
  const std::uint32_t crc = Crc32c(piece->data() + 8, piece->size() - 8);
  std::memcpy(piece->data() + 4, &crc, sizeof(crc));
}

TEST(Snapshot, AnyFlippedBitIsRefusedByTheCrc) {
  const std::string piece = SmallPiece();
  ASSERT_OK(ReadAll(piece));
  for (std::size_t bit = 0; bit < piece.size() * 8; ++bit) {
    std::string wrong = piece;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(ReadAll(wrong), StatusIs(kInvalidArgument)) << "bit=" << bit;
  }
}

TEST(Snapshot, ACutPieceIsRefusedOrEndsAtARecord) {
  const std::string piece = SmallPiece();
  std::size_t whole = 0;
  for (std::size_t size = 0; size < piece.size(); ++size) {
    std::string cut = piece.substr(0, size);
    if (size >= 24) Repair(&cut);
    const absl::Status status = ReadAll(cut);
    whole += status.ok() ? 1 : 0;
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
  }
  EXPECT_EQ(whole, 8u) << "log, granule, line, granule, lines, line, client, and none of them";
  EXPECT_THAT(ReadAll(piece + std::string(kPieceSizeMax, 'x')), StatusIs(kInvalidArgument));
}

struct WrongByte {
  std::size_t at;
  char value;
  const char* what;
};
void ExpectRefused(const std::string& piece, absl::Span<const WrongByte> wrong) {
  ASSERT_OK(ReadAll(piece));
  for (const WrongByte& one : wrong) {
    std::string bad = piece;
    bad[one.at] = one.value;
    Repair(&bad);
    EXPECT_THAT(ReadAll(bad), StatusIs(kInvalidArgument)) << one.what;
  }
}

// The same with the CRC put right: what each field must and must not be.
TEST(Snapshot, FieldsThatMakeNoSenseAreRefused) {
  const std::string piece = SmallPiece();
  const std::size_t log = 24, granule = log + 24, line = granule + 12;
  const WrongByte wrong[] = {
      {log, 9, "unknown tag"},
      {log, 2, "a granule outside of a log"},
      {log + 1, 1, "reserved"},
      {log + 20, 9, "end_cells past 2^32"},
      {granule + 1, static_cast<char>(200), "size class"},
      {granule + 7, static_cast<char>(255), "granule number"},
      {granule, 3, "a line outside of a granule"},
      {line + 1, 64, "index in the granule"},
      {line + 2, 1, "a flag that does not travel"},
      {line + 3, 1, "reserved"},
      {line + 5, 5, "key longer than 1,024"},
      {line + 7, 5, "more than 1,024 ranges"},
      {line + 15, 1, "a value longer than its ranges"},
  };
  ExpectRefused(piece, wrong);
}

TEST(Snapshot, FieldsOfAWholeLineThatMakeNoSenseAreRefused) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  Fill(&lines, 30);
  lines.SetKey(69, "short");
  SnapshotWriter writer(3);
  writer.BeginLog({kMemgest, 55, 66});
  writer.AddGranule(lines, 1);
  writer.AddLines(lines, 1, std::uint64_t{1} << 5);
  const std::string piece = AllPieces(writer)[0];
  const std::size_t granule = 24 + 24, lines_at = granule + 12, line = lines_at + 16;
  ASSERT_EQ(piece.size(), line + 64);
  const WrongByte wrong[] = {
      {granule, 6, "lines outside of a granule"},
      {lines_at + 1, 1, "reserved"},
      {lines_at + 8, 0, "no line"},
      {lines_at + 8, 16, "another place in the granule"},
      {lines_at + 8, 48, "more lines than there are"},
      {line + 14, 1, "a value longer than its slot"},
      {line + 24, 1, "another slot"},
      {line + 28, 0, "a link"},
      {line + 32, 0, "no key"},
      {line + 32, 25, "a key that does not fit"},
      {line + 34, 8, "another memgest"},
      {line + 36, kLarge, "ranges"},
      {line + 36, kLive, "a flag that does not travel"},
      {line + 37, 5, "another size class"},
      {line + 38, 1, "pins"},
  };
  ExpectRefused(piece, wrong);
}

}  // namespace
}  // namespace ring::memgest
