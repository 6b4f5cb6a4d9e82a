#include "memgest/snapshot.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/size_class.h"
#include "ring/base/crc32c.h"
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

TEST(Snapshot, EveryLineArrivesInPiecesOfBoundedSizeThatCanBeReadAlone) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  Fill(&lines, 700);
  SnapshotWriter writer(3);
  writer.BeginLog({kMemgest, 55, 66});
  for (std::uint32_t n = 0; n < 2100; ++n) {
    if (lines.Has(n) && lines.line(n).version != 0) writer.AddLine(lines, n);
  }
  const Snapshot snapshot = writer.Take();
  ASSERT_GT(snapshot.pieces.size(), 10u);
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < snapshot.pieces.size(); ++i) {
    EXPECT_LE(snapshot.pieces[i].size(), kSnapshotPieceSizeMax);
    ASSERT_OK_AND_ASSIGN(SnapshotReader reader, SnapshotReader::Open(snapshot.pieces[i]));
    EXPECT_EQ(reader.id(), 3u);
    EXPECT_EQ(reader.number(), i);
    EXPECT_EQ(reader.last(), i + 1 == snapshot.pieces.size());
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
      if (item.kind != SnapshotItem::Kind::kLine) continue;
      while (!lines.Has(number) || lines.line(number).version == 0) ++number;
      const MetadataLine& line = lines.line(number);
      ASSERT_EQ(item.number, number);
      EXPECT_EQ(item.line.version, line.version);
      EXPECT_EQ(item.line.value_crc, line.value_crc);
      EXPECT_EQ(item.line.value_length, line.value_length);
      EXPECT_EQ(item.line.expiry_ns, line.expiry_ns);
      EXPECT_EQ(item.line.offset_cells, line.offset_cells);
      EXPECT_EQ(item.line.size_class, line.size_class);
      EXPECT_EQ(item.line.flags, line.flags & ~(kLive | kCommitted));
      EXPECT_EQ(item.key, lines.Key(number));
      const absl::Span<const Range> ranges = lines.Ranges(number);
      ASSERT_EQ(item.ranges.size(), ranges.size());
      for (std::size_t r = 0; r < ranges.size(); ++r) {
        EXPECT_EQ(item.ranges[r].offset_cells, ranges[r].offset_cells);
      }
      ++number;
    }
  }
  for (; number < 2100; ++number) {
    EXPECT_TRUE(!lines.Has(number) || lines.line(number).version == 0) << number;
  }
}

TEST(Snapshot, AnEmptyOneIsAPieceToo) {
  const Snapshot snapshot = SnapshotWriter(1).Take();
  ASSERT_EQ(snapshot.pieces.size(), 1u);
  ASSERT_OK_AND_ASSIGN(SnapshotReader reader, SnapshotReader::Open(snapshot.pieces[0]));
  EXPECT_TRUE(reader.last());
  SnapshotItem item;
  EXPECT_THAT(reader.Next(&item), ring::testing::IsOkAndHolds(false));
}

// A piece with a log, a granule, a line of class 4 and one with a range, and a record.
std::string SmallPiece() {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  Fill(&lines, 30);
  SnapshotWriter writer(3);
  writer.BeginLog({kMemgest, 55, 66});
  writer.AddLine(lines, 12);  // large
  writer.AddLine(lines, 66);
  CompletionTable completions;
  CompletionTable::Client* client = completions.FindOrAdd({5, 6});
  CompletionTable::Finish(client, 10,
                          {.seq = 20, .version = 9, .request_crc = 1, .memgest = kMemgest.value()});
  const std::vector<MemgestId> logs = {kMemgest};
  writer.AddCompletions(completions, logs);
  return writer.Take().pieces[0];
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
  EXPECT_EQ(whole, 7u) << "log, granule, line, granule, line, client, and none of them";
  EXPECT_THAT(ReadAll(piece + std::string(kSnapshotPieceSizeMax, 'x')), StatusIs(kInvalidArgument));
}

// The same with the CRC put right: what each field must and must not be.
TEST(Snapshot, FieldsThatMakeNoSenseAreRefused) {
  const std::string piece = SmallPiece();
  ASSERT_OK(ReadAll(piece));
  const std::size_t log = 24, granule = log + 24, line = granule + 12;
  const struct {
    std::size_t at;
    char value;
    const char* what;
  } wrong[] = {
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
  for (const auto& one : wrong) {
    std::string bad = piece;
    bad[one.at] = one.value;
    Repair(&bad);
    EXPECT_THAT(ReadAll(bad), StatusIs(kInvalidArgument)) << one.what;
  }
}

}  // namespace
}  // namespace ring::memgest
