#include "consensus/file/log_segment.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "consensus/message.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::consensus {
namespace {

constexpr std::size_t kCrcOffset = 4;
constexpr std::size_t kCheckedFrom = 8;

struct Record {
  RecordType type;
  std::uint64_t batch;
  absl::string_view body;
};

void PutRecord(RecordType type, std::uint64_t batch, absl::string_view body, std::string& bytes) {
  ByteWriter out;
  out.Put(kRecordMagic);
  out.Put(std::uint32_t{0});
  out.Put(static_cast<std::uint32_t>(body.size()));
  out.Put(static_cast<std::uint32_t>(type));
  out.Put(batch);
  out.PutBytes(body);
  std::string& record = out.bytes();
  const std::uint32_t crc = Crc32c(record.data() + kCheckedFrom, record.size() - kCheckedFrom);
  std::memcpy(record.data() + kCrcOffset, &crc, sizeof(crc));
  bytes += record;
}

// The record at an offset, when there is a whole one.
std::optional<Record> RecordAt(absl::string_view bytes, std::uint64_t offset) {
  const absl::string_view rest = bytes.substr(offset);
  ByteReader in(rest);
  const std::uint32_t magic = in.Get<std::uint32_t>();
  const std::uint32_t crc = in.Get<std::uint32_t>();
  const std::uint32_t size = in.Get<std::uint32_t>();
  const std::uint32_t type = in.Get<std::uint32_t>();
  const std::uint64_t batch = in.Get<std::uint64_t>();
  const absl::string_view body = in.GetBytes(size);
  if (!in.ok() || magic != kRecordMagic ||
      crc != Crc32c(rest.data() + kCheckedFrom, kRecordHeaderSize - kCheckedFrom + size)) {
    return std::nullopt;
  }
  return Record{static_cast<RecordType>(type), batch, body};
}

// Whether a record behind a bad place says that the place was durable once.
bool WasDurable(absl::string_view bytes, std::uint64_t bad) {
  const absl::string_view magic(reinterpret_cast<const char*>(&kRecordMagic), sizeof(kRecordMagic));
  for (std::size_t at = bytes.find(magic, bad); at != absl::string_view::npos;
       at = bytes.find(magic, at + 1)) {
    const std::optional<Record> record = RecordAt(bytes, at);
    if (record.has_value() && record->batch > bad) return true;
  }
  return false;
}

absl::Status Corrupt(absl::string_view path, std::uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrFormat("%s: offset=%d: %s", path, offset, what));
}

absl::Status TakeEntryRecord(absl::string_view body, LogContent& content, SegmentInfo& info) {
  ByteReader in(body);
  const LogIndex index = in.Get<std::uint64_t>();
  RING_ASSIGN_OR_RETURN(Entry entry, TakeEntry(index, in));
  if (!in.rest()->empty()) return absl::InvalidArgumentError("bytes behind an entry");
  std::vector<Entry>& entries = content.entries;
  if (!entries.empty()) {
    if (index > entries.back().index + 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("index=%d does not follow index=%d", index, entries.back().index));
    }
    // A log that was given up from its index on; from its first on, when older files are gone.
    const LogIndex first = entries.front().index;
    entries.resize(index > first ? static_cast<std::size_t>(index - first) : 0);
  }
  info.last_index = std::max(info.last_index, index);
  entries.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status TakeSegmentRecord(absl::string_view body, std::uint64_t number, ServerId server) {
  ByteReader in(body);
  const std::uint32_t version = in.Get<std::uint32_t>();
  const std::uint64_t its_number = in.Get<std::uint64_t>();
  const std::uint64_t its_server = in.Get<std::uint64_t>();
  if (in.ok() && version != kSegmentVersion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("version=%d: the log of another release; this one reads version=%d",
                        version, kSegmentVersion));
  }
  if (!in.ok() || its_number != number || its_server != server.value()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "number=%d server=%x: not the log of server=%x", its_number, its_server, server.value()));
  }
  return absl::OkStatus();
}

absl::Status TakeRecord(const Record& record, std::uint64_t number, ServerId server,
                        LogContent& content, SegmentInfo& info) {
  switch (record.type) {
    case RecordType::kSegment:
      return TakeSegmentRecord(record.body, number, server);
    case RecordType::kHardState: {
      ByteReader in(record.body);
      content.hard_state = {in.Get<std::uint64_t>(), ServerId(in.Get<std::uint64_t>())};
      return in.ok() ? absl::OkStatus() : absl::InvalidArgumentError("short hard state");
    }
    case RecordType::kEntry:
      return TakeEntryRecord(record.body, content, info);
    case RecordType::kReset:
      content.entries.clear();
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("record_type=%d", static_cast<std::uint32_t>(record.type)));
}

}  // namespace

void PutSegmentRecord(std::uint64_t number, ServerId server, std::uint64_t batch,
                      std::string& bytes) {
  ByteWriter body;
  body.Put(kSegmentVersion);
  body.Put(number);
  body.Put(server.value());
  PutRecord(RecordType::kSegment, batch, body.bytes(), bytes);
}

void PutHardStateRecord(const HardState& state, std::uint64_t batch, std::string& bytes) {
  ByteWriter body;
  body.Put(state.term);
  body.Put(state.vote.value());
  PutRecord(RecordType::kHardState, batch, body.bytes(), bytes);
}

void PutEntryRecord(const Entry& entry, std::uint64_t batch, std::string& bytes) {
  ByteWriter body;
  body.Put(entry.index);
  PutEntry(entry, body);
  PutRecord(RecordType::kEntry, batch, body.bytes(), bytes);
}

void PutResetRecord(std::uint64_t batch, std::string& bytes) {
  PutRecord(RecordType::kReset, batch, {}, bytes);
}

absl::StatusOr<SegmentInfo> ReadSegment(absl::string_view bytes, absl::string_view path,
                                        std::uint64_t number, ServerId server, bool is_last,
                                        LogContent& content) {
  SegmentInfo info;
  while (info.valid_size < bytes.size()) {
    const std::optional<Record> record = RecordAt(bytes, info.valid_size);
    if (!record.has_value()) {
      if (is_last && !WasDurable(bytes, info.valid_size)) return info;
      return Corrupt(path, info.valid_size,
                     "no valid record, but what stood here was durable once; remove the directory, "
                     "and the node joins as a new server (never put a backup in its place)");
    }
    if ((record->type == RecordType::kSegment) != (info.valid_size == 0)) {
      return Corrupt(path, info.valid_size, "a file begins with a segment record, and has one");
    }
    if (const absl::Status status = TakeRecord(*record, number, server, content, info);
        !status.ok()) {
      return Corrupt(path, info.valid_size, status.message());
    }
    info.valid_size += kRecordHeaderSize + record->body.size();
  }
  if (info.valid_size == 0 && !is_last) return Corrupt(path, 0, "an empty file inside the log");
  return info;
}

}  // namespace ring::consensus
