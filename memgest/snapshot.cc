#include "memgest/snapshot.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "memgest/size_class.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

static_assert(std::endian::native == std::endian::little, "records travel as they are in memory");

constexpr std::uint32_t kPieceMagic = 0x324e5352;  // "RSN2"
constexpr std::uint32_t kLastPiece = 1;
// What a message puts behind a piece finds its place there.
constexpr std::size_t kTrailerRoom = 16;

struct PieceHeader {
  std::uint32_t magic = kPieceMagic;
  std::uint32_t crc = 0;  // of all that follows this field
  std::uint64_t id = 0;
  std::uint32_t number = 0;
  std::uint32_t flags = 0;
};
static_assert(sizeof(PieceHeader) == 24);
constexpr std::size_t kCrcEnd = 8;

// Travel: never renumber.
enum class Tag : std::uint8_t {
  kLog = 1,
  kGranule = 2,
  kLine = 3,
  kClient = 4,
  kDone = 5,
  kLines = 6
};

struct LogRecord {
  Tag tag = Tag::kLog;
  std::uint8_t reserved = 0;
  std::uint16_t memgest = 0;
  std::uint32_t reserved2 = 0;
  std::uint64_t applied = 0;
  std::uint64_t end_cells = 0;
};
struct GranuleRecord {
  Tag tag = Tag::kGranule;
  std::uint8_t size_class = 0;
  std::uint16_t reserved = 0;
  std::uint32_t number = 0;
  std::uint32_t base_cells = 0;
};
struct LinesRecord {  // behind it a line for each bit
  Tag tag = Tag::kLines;
  std::uint8_t reserved[7] = {};
  std::uint64_t mask = 0;
};
struct LineRecord {  // behind it the key, then the ranges
  Tag tag = Tag::kLine;
  std::uint8_t index = 0;  // in the granule
  std::uint8_t flags = 0;
  std::uint8_t reserved = 0;
  std::uint16_t key_length = 0;
  std::uint16_t range_count = 0;
  std::uint32_t value_crc = 0;
  std::uint32_t value_length = 0;
  std::uint64_t version = 0;
  std::uint64_t expiry_ns = 0;
  std::uint32_t offset_cells = 0;
  std::uint32_t reserved2 = 0;
};
struct ClientRecord {
  Tag tag = Tag::kClient;
  std::uint8_t reserved[7] = {};
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::uint64_t first_incomplete = 0;
};
struct DoneRecord {
  Tag tag = Tag::kDone;
  std::uint8_t code = 0;
  std::uint16_t memgest = 0;
  std::uint32_t request_crc = 0;
  std::uint64_t seq = 0;
  std::uint64_t version = 0;
};
static_assert(sizeof(LogRecord) == 24 && sizeof(GranuleRecord) == 12 && sizeof(LinesRecord) == 16 &&
              sizeof(LineRecord) == 40 && sizeof(ClientRecord) == 32 && sizeof(DoneRecord) == 24);

constexpr std::uint8_t kLineFlags = kTombstone | kLarge | kExplicit;

// All of it stands in its 64 bytes.
bool IsWhole(const MetadataLine& line) {
  return line.key_length <= kInlineKeySizeMax && (line.flags & kLarge) == 0;
}

template <class Record>
absl::string_view BytesOf(const Record& record) {
  return {reinterpret_cast<const char*>(&record), sizeof(record)};
}

absl::Status Wrong(absl::string_view what, std::uint64_t value) {
  return absl::InvalidArgumentError(absl::StrCat("snapshot piece: ", what, "=", value));
}

// Takes a record off; its bytes are there or not.
template <class Record>
absl::Status Take(ByteReader* from, Record* record) {
  const absl::string_view bytes = from->GetBytes(sizeof(Record));
  if (!from->ok()) return absl::InvalidArgumentError("snapshot piece: a record is cut off");
  std::memcpy(record, bytes.data(), sizeof(Record));
  return absl::OkStatus();
}

}  // namespace

SnapshotWriter::SnapshotWriter(std::uint64_t id, std::size_t piece_size)
    : id_(id), piece_size_(piece_size) {
  RING_CHECK(id != 0) << "a snapshot without an id";
  RING_CHECK(piece_size <= kPieceSizeMax) << "piece_size=" << piece_size;
  StartPiece();
}

void SnapshotWriter::StartPiece() {
  piece_.bytes().reserve(piece_size_ + kTrailerRoom);
  piece_.PutBytes(BytesOf(PieceHeader{}));
  piece_.PutBytes(context_);
  context_end_ = piece_.bytes().size();
}

void SnapshotWriter::EndPiece(bool last) {
  std::string piece = piece_.Take();
  piece_ = ByteWriter();
  PieceHeader header;
  header.id = id_;
  header.number = ended_count_++;
  header.flags = last ? kLastPiece : 0;
  std::memcpy(piece.data(), &header, sizeof(header));
  header.crc = Crc32c(piece.data() + kCrcEnd, piece.size() - kCrcEnd);
  std::memcpy(piece.data(), &header, sizeof(header));
  pieces_.push_back(std::move(piece));
}

void SnapshotWriter::Need(std::size_t size) {
  const std::size_t used = piece_.bytes().size();
  if (used == context_end_ || used + size <= piece_size_) return;
  EndPiece(false);
  StartPiece();
}

void SnapshotWriter::BeginLog(const SnapshotLog& log) {
  LogRecord record;
  record.memgest = log.memgest.value();
  record.applied = log.applied;
  record.end_cells = log.end_cells;
  context_.clear();
  Need(sizeof(record));
  piece_.PutBytes(BytesOf(record));
  context_.assign(BytesOf(record).data(), sizeof(record));
  log_context_size_ = context_.size();
}

void SnapshotWriter::AddGranule(const LineTable& lines, std::uint32_t number) {
  const Granule& known = lines.granule(number * kLinesPerGranule);
  GranuleRecord granule;
  granule.number = number;
  if (known.taken != 0) {  // else its class and place mean nothing
    granule.size_class = known.size_class;
    granule.base_cells = known.base_cells;
  }
  context_.resize(log_context_size_);
  Need(sizeof(granule));
  piece_.PutBytes(BytesOf(granule));
  context_.append(BytesOf(granule).data(), sizeof(granule));
}

void SnapshotWriter::AddLines(const LineTable& lines, std::uint32_t granule, std::uint64_t mask) {
  const std::uint32_t first = granule * kLinesPerGranule;
  std::uint64_t whole = 0;
  for (std::uint64_t left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    if (IsWhole(lines.line(first + static_cast<std::uint32_t>(i)))) whole |= left & -left;
  }
  AddWhole(lines, granule, whole);
  for (std::uint64_t left = mask & ~whole; left != 0; left &= left - 1)
    AddLine(lines, first + static_cast<std::uint32_t>(std::countr_zero(left)));
}

void SnapshotWriter::AddWhole(const LineTable& lines, std::uint32_t granule, std::uint64_t mask) {
  while (mask != 0) {
    Need(sizeof(LinesRecord) + sizeof(MetadataLine));
    std::string& bytes = piece_.bytes();
    const std::size_t at_least = bytes.size() + sizeof(LinesRecord) + sizeof(MetadataLine);
    const std::size_t more = (std::max(piece_size_, at_least) - at_least) / sizeof(MetadataLine);
    LinesRecord record;
    for (std::size_t count = 0; count <= more && mask != 0; ++count, mask &= mask - 1)
      record.mask |= mask & -mask;
    piece_.PutBytes(BytesOf(record));
    std::size_t at = bytes.size();
    bytes.resize(at + static_cast<std::size_t>(std::popcount(record.mask)) * sizeof(MetadataLine));
    for (std::uint64_t left = record.mask; left != 0; left &= left - 1) {
      MetadataLine line = lines.line(granule * kLinesPerGranule +
                                     static_cast<std::uint32_t>(std::countr_zero(left)));
      line.flags &= kLineFlags;
      line.size_class = lines.granule(granule * kLinesPerGranule).size_class;
      line.pins = 0;
      line.prev = kNoLine;
      std::memcpy(bytes.data() + at, &line, sizeof(line));
      at += sizeof(line);
    }
  }
}

void SnapshotWriter::AddLine(const LineTable& lines, std::uint32_t number) {
  const MetadataLine& line = lines.line(number);
  const absl::Span<const Range> ranges =
      (line.flags & kLarge) != 0 ? lines.Ranges(number) : absl::Span<const Range>();
  LineRecord record;
  record.index = static_cast<std::uint8_t>(number % kLinesPerGranule);
  record.flags = line.flags & kLineFlags;
  record.key_length = line.key_length;
  record.range_count = static_cast<std::uint16_t>(ranges.size());
  record.value_crc = line.value_crc;
  record.value_length = line.value_length;
  record.version = line.version;
  record.expiry_ns = line.expiry_ns;
  record.offset_cells = line.offset_cells;
  Need(sizeof(record) + line.key_length + ranges.size() * sizeof(Range));
  piece_.PutBytes(BytesOf(record));
  piece_.PutBytes(lines.Key(number));
  piece_.PutBytes({reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(Range)});
}

// Client by client, in an order that is the same each time: a simulated run is, too.
void SnapshotWriter::AddCompletions(const CompletionTable& completions,
                                    absl::Span<const SnapshotLog> logs) {
  if (Mutant("X2-snapshot")) return;
  struct One {
    ClientId id;
    std::uint64_t first_incomplete;
    const CompletionTable::Client* client;
  };
  std::vector<One> clients;
  completions.ForEachClient([&clients](const ClientId& id, std::uint64_t first_incomplete,
                                       const CompletionTable::Client* client) {
    clients.push_back({id, first_incomplete, client});
  });
  std::sort(clients.begin(), clients.end(), [](const One& a, const One& b) {
    return std::pair(a.id.high, a.id.low) < std::pair(b.id.high, b.id.low);
  });
  for (const One& one : clients) AddClient(one.id, one.first_incomplete, one.client, logs);
}

void SnapshotWriter::AddClient(const ClientId& id, std::uint64_t first_incomplete,
                               const CompletionTable::Client* client,
                               absl::Span<const SnapshotLog> logs) {
  ClientRecord record;
  record.high = id.high;
  record.low = id.low;
  record.first_incomplete = first_incomplete;
  context_.clear();
  Need(sizeof(record));
  piece_.PutBytes(BytesOf(record));
  context_.assign(BytesOf(record).data(), sizeof(record));
  CompletionTable::ForEachDone(client, [&](const CompletionRecord& one) {
    const bool wanted = std::any_of(logs.begin(), logs.end(), [&one](const SnapshotLog& log) {
      return log.memgest.value() == one.memgest;
    });
    if (!wanted) return;
    DoneRecord done;
    done.code = one.code;
    done.memgest = one.memgest;
    done.request_crc = one.request_crc;
    done.seq = one.seq;
    done.version = one.version;
    Need(sizeof(done));
    piece_.PutBytes(BytesOf(done));
  });
}

std::string SnapshotWriter::TakePiece() {
  RING_CHECK(!pieces_.empty()) << "snapshot id=" << id_;
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

absl::StatusOr<SnapshotReader> SnapshotReader::Open(absl::string_view piece) {
  PieceHeader header;
  ByteReader bytes(piece);
  RING_RETURN_IF_ERROR(Take(&bytes, &header));
  if (piece.size() > kPieceSizeMax) return Wrong("size", piece.size());
  if (header.magic != kPieceMagic) return Wrong("magic", header.magic);
  if (header.id == 0) return Wrong("id", header.id);
  if ((header.flags & ~kLastPiece) != 0) return Wrong("flags", header.flags);
  const std::uint32_t crc = Crc32c(piece.data() + kCrcEnd, piece.size() - kCrcEnd);
  if (crc != header.crc) return Wrong("crc", header.crc);
  SnapshotReader reader(*bytes.rest());
  reader.id_ = header.id;
  reader.crc_ = crc;
  reader.number_ = header.number;
  reader.last_ = (header.flags & kLastPiece) != 0;
  return reader;
}

absl::StatusOr<bool> SnapshotReader::Next(SnapshotItem* item) {
  if (records_.rest()->empty()) return false;
  const auto tag = static_cast<Tag>(records_.rest()->front());
  switch (tag) {
    case Tag::kLog: {
      LogRecord record;
      RING_RETURN_IF_ERROR(Take(&records_, &record));
      if (MemgestId(record.memgest) > kMemgestIdMax) return Wrong("memgest", record.memgest);
      if (record.end_cells > std::uint64_t{1} << 32) return Wrong("end_cells", record.end_cells);
      if (record.reserved != 0 || record.reserved2 != 0) return Wrong("reserved", 1);
      log_ = {MemgestId(record.memgest), record.applied, record.end_cells};
      in_log_ = true;
      in_granule_ = false;
      item->kind = SnapshotItem::Kind::kLog;
      item->log = log_;
      return true;
    }
    case Tag::kGranule: {
      GranuleRecord record;
      RING_RETURN_IF_ERROR(Take(&records_, &record));
      if (!in_log_) return Wrong("granule outside of a log", record.number);
      if (!IsSizeClass(record.size_class)) return Wrong("size_class", record.size_class);
      if (record.number >= kNoLine / kLinesPerGranule) return Wrong("granule", record.number);
      if (record.reserved != 0) return Wrong("reserved", record.reserved);
      granule_ = record.number;
      granule_record_.size_class = record.size_class;
      granule_record_.base_cells = record.base_cells;
      in_granule_ = true;
      item->kind = SnapshotItem::Kind::kGranule;
      item->number = record.number * kLinesPerGranule;
      item->size_class = record.size_class;
      item->base_cells = record.base_cells;
      item->log = log_;
      return true;
    }
    case Tag::kLines:
      RING_RETURN_IF_ERROR(ReadLines(item));
      return true;
    case Tag::kLine:
      RING_RETURN_IF_ERROR(ReadLine(item));
      return true;
    case Tag::kClient: {
      ClientRecord record;
      RING_RETURN_IF_ERROR(Take(&records_, &record));
      client_ = {record.high, record.low};
      if (client_.empty()) return Wrong("client", 0);
      first_incomplete_ = record.first_incomplete;
      in_log_ = in_granule_ = false;
      item->kind = SnapshotItem::Kind::kClient;
      item->client = client_;
      item->first_incomplete = first_incomplete_;
      return true;
    }
    case Tag::kDone:
      RING_RETURN_IF_ERROR(ReadDone(item));
      return true;
  }
  return Wrong("tag", static_cast<std::uint64_t>(tag));
}

absl::Status SnapshotReader::ReadLines(SnapshotItem* item) {
  LinesRecord record;
  RING_RETURN_IF_ERROR(Take(&records_, &record));
  if (!in_granule_) return Wrong("lines outside of a granule, mask", record.mask);
  if (record.mask == 0) return Wrong("mask", record.mask);
  for (const std::uint8_t reserved : record.reserved)
    if (reserved != 0) return Wrong("reserved", reserved);
  const auto count = static_cast<std::size_t>(std::popcount(record.mask));
  const absl::string_view bytes = records_.GetBytes(count * sizeof(MetadataLine));
  if (!records_.ok()) return Wrong("lines are cut off, mask", record.mask);
  item->kind = SnapshotItem::Kind::kLines;
  item->log = log_;
  item->number = granule_ * kLinesPerGranule;
  item->size_class = granule_record_.size_class;
  item->base_cells = granule_record_.base_cells;
  item->mask = record.mask;
  item->lines = bytes;
  absl::Status status;
  ForEachLine(*item, [&](std::uint32_t number, const MetadataLine& line) {
    if (status.ok()) status = CheckWhole(line, number % kLinesPerGranule);
  });
  return status;
}

// What an entry would have made of it.
absl::Status SnapshotReader::CheckWhole(const MetadataLine& line, std::uint32_t index) const {
  const std::uint32_t cells = CellsOf(granule_record_.size_class);
  if (line.version == 0) return Wrong("version", 0);
  if ((line.flags & ~(kTombstone | kExplicit)) != 0) return Wrong("flags", line.flags);
  if (line.key_length == 0 || line.key_length > kInlineKeySizeMax)
    return Wrong("key_length", line.key_length);
  if (line.memgest != log_.memgest.value()) return Wrong("memgest", line.memgest);
  if (line.size_class != granule_record_.size_class) return Wrong("size_class", line.size_class);
  if (line.pins != 0) return Wrong("pins", line.pins);
  if (line.prev != kNoLine) return Wrong("prev", line.prev);
  const std::uint64_t offset =
      std::uint64_t{granule_record_.base_cells} + std::uint64_t{index} * cells;
  if (cells > 0 && line.offset_cells != offset) return Wrong("offset_cells", line.offset_cells);
  if (line.value_length > std::uint64_t{cells} * kCellSize)
    return Wrong("value_length", line.value_length);
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadLine(SnapshotItem* item) {
  LineRecord record;
  RING_RETURN_IF_ERROR(Take(&records_, &record));
  if (!in_granule_) return Wrong("line outside of a granule", record.index);
  if (record.index >= kLinesPerGranule) return Wrong("index", record.index);
  if ((record.flags & ~kLineFlags) != 0) return Wrong("flags", record.flags);
  if (record.reserved != 0 || record.reserved2 != 0) return Wrong("reserved", 1);
  if (record.version == 0) return Wrong("version", 0);
  if (record.key_length == 0 || record.key_length > kEntryKeySizeMax) {
    return Wrong("key_length", record.key_length);
  }
  const bool large = (record.flags & kLarge) != 0;
  if (record.range_count > kRangeCountMax || large != (record.range_count > 0)) {
    return Wrong("range_count", record.range_count);
  }
  const std::uint32_t slot_cells = CellsOf(granule_record_.size_class);
  const std::uint64_t offset =
      std::uint64_t{granule_record_.base_cells} + std::uint64_t{record.index} * slot_cells;
  if (slot_cells > 0 && record.offset_cells != offset) {
    return Wrong("offset_cells", record.offset_cells);
  }
  item->key = records_.GetBytes(record.key_length);
  const absl::string_view ranges = records_.GetBytes(record.range_count * sizeof(Range));
  if (!records_.ok()) return Wrong("a key or ranges are cut off behind index", record.index);
  item->ranges.resize(record.range_count);
  if (large) std::memcpy(item->ranges.data(), ranges.data(), ranges.size());
  std::uint64_t cells = slot_cells;
  if (large) cells = 0;
  for (const Range& range : item->ranges) {
    cells += range.length_cells;
    if (std::uint64_t{range.offset_cells} + range.length_cells > std::uint64_t{1} << 32) {
      return Wrong("range offset_cells", range.offset_cells);
    }
  }
  if (record.value_length > cells * kCellSize) return Wrong("value_length", record.value_length);
  item->kind = SnapshotItem::Kind::kLine;
  item->log = log_;
  item->number = granule_ * kLinesPerGranule + record.index;
  item->line = MetadataLine{};
  item->line.version = record.version;
  item->line.value_crc = record.value_crc;
  item->line.value_length = record.value_length;
  item->line.expiry_ns = record.expiry_ns;
  item->line.offset_cells = record.offset_cells;
  item->line.memgest = log_.memgest.value();
  item->line.flags = record.flags;
  item->line.size_class = granule_record_.size_class;
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadDone(SnapshotItem* item) {
  DoneRecord record;
  RING_RETURN_IF_ERROR(Take(&records_, &record));
  if (client_.empty()) return Wrong("record without a client, seq", record.seq);
  if (record.seq < first_incomplete_ || record.seq - first_incomplete_ >= kOutstandingMax) {
    return Wrong("seq", record.seq);
  }
  if (MemgestId(record.memgest) > kMemgestIdMax) return Wrong("memgest", record.memgest);
  item->kind = SnapshotItem::Kind::kDone;
  item->client = client_;
  item->first_incomplete = first_incomplete_;
  item->done = CompletionRecord{};
  item->done.seq = record.seq;
  item->done.version = record.version;
  item->done.request_crc = record.request_crc;
  item->done.memgest = record.memgest;
  item->done.code = record.code;
  return absl::OkStatus();
}

}  // namespace ring::memgest
