// Fuzzes SnapshotReader and TailDecoder: a piece as it is, and with its CRC put right, so that what
// lies behind it is reached. What is decoded must lie within the piece and keep its limits.
#include <cstring>
#include <string>

#include "memgest/log_tail.h"
#include "memgest/size_class.h"
#include "memgest/snapshot.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"

namespace ring::memgest {
namespace {

void ReadSnapshot(const std::string& piece) {
  absl::StatusOr<SnapshotReader> reader = SnapshotReader::Open(piece);
  if (!reader.ok()) return;
  SnapshotItem item;
  for (absl::StatusOr<bool> more = reader->Next(&item); more.ok() && *more;
       more = reader->Next(&item)) {
    if (item.kind == SnapshotItem::Kind::kLine) {
      RING_CHECK(item.key.data() >= piece.data() &&
                 item.key.data() + item.key.size() <= piece.data() + piece.size());
      RING_CHECK(!item.key.empty() && item.key.size() <= kEntryKeySizeMax);
      RING_CHECK(item.ranges.size() <= kRangeCountMax && IsSizeClass(item.line.size_class));
      RING_CHECK(item.line.version != 0 && item.number != kNoLine);
    }
    if (item.kind == SnapshotItem::Kind::kLines) {
      RING_CHECK(item.lines.data() >= piece.data() &&
                 item.lines.data() + item.lines.size() <= piece.data() + piece.size());
      RING_CHECK(IsSizeClass(item.size_class));
      std::size_t count = 0;
      ForEachLine(item, [&](std::uint32_t number, const MetadataLine& line) {
        ++count;
        RING_CHECK(line.version != 0 &&
                   number / kLinesPerGranule == item.number / kLinesPerGranule);
        RING_CHECK(line.key_length > 0 && line.key_length <= kInlineKeySizeMax);
      });
      RING_CHECK(count > 0 && count * sizeof(MetadataLine) == item.lines.size());
    }
    if (item.kind == SnapshotItem::Kind::kDone) {
      RING_CHECK(!item.client.empty() && item.done.seq - item.first_incomplete < kOutstandingMax);
    }
  }
}

void ReadTail(const std::string& piece) {
  TailDecoder decoder;
  for (int i = 0; i < 2; ++i) {
    decoder
        .Add(piece,
             [](const EntryView& entry) {
               RING_CHECK(entry.header.index != 0 && entry.header.type != EntryType::kPad);
               // Who takes it judges the payload: that of a damaged ring is still an entry.
               (void)CheckPayload(entry, Crc32c(entry.payload, entry.header.payload_length)).ok();
               return absl::OkStatus();
             })
        .IgnoreError();
  }
}

}  // namespace
}  // namespace ring::memgest

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > ring::memgest::kPieceSizeMax) return 0;
  std::string piece(reinterpret_cast<const char*>(data), size);
  ring::memgest::ReadSnapshot(piece);
  ring::memgest::ReadTail(piece);
  constexpr std::size_t kCrcEnd = 8;  // magic, CRC: of both kinds of piece
  if (size < kCrcEnd) return 0;
  const std::uint32_t crc = ring::Crc32c(piece.data() + kCrcEnd, size - kCrcEnd);
  std::memcpy(piece.data() + 4, &crc, sizeof(crc));
  ring::memgest::ReadSnapshot(piece);
  ring::memgest::ReadTail(piece);
  return 0;
}
