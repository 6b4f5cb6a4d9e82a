#include "memgest/entry_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "memgest/completion_table.h"
#include "memgest/heap_space.h"
#include "memgest/size_class.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

absl::Status CheckVersionLine(const EntryHeader& header) {
  if (header.line == kNoLine || header.version == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("line=", header.line, " version=", header.version));
  }
  if (!IsSizeClass(header.size_class)) {
    return absl::InvalidArgumentError(absl::StrCat("size_class=", int{header.size_class}));
  }
  return absl::OkStatus();
}

absl::Status CheckNoPayload(const EntryHeader& header) {
  if (header.payload_length == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("type=", static_cast<int>(header.type),
                                                 " payload_length=", header.payload_length,
                                                 ": it has no payload"));
}

// The payload is the whole value (or its delta), in one slot.
absl::Status CheckPut(const EntryHeader& header) {
  RING_RETURN_IF_ERROR(CheckVersionLine(header));
  const std::uint32_t slot = CellsOf(header.size_class) * kCellSize;
  if (header.value_length > header.payload_length || header.payload_length > slot) {
    return absl::InvalidArgumentError(absl::StrCat("value_length=", header.value_length,
                                                   " payload_length=", header.payload_length,
                                                   " slot=", slot));
  }
  return absl::OkStatus();
}

// The value came as PARTs, into a slot or into ranges.
absl::Status CheckFinal(const EntryView& entry) {
  const EntryHeader& header = entry.header;
  RING_RETURN_IF_ERROR(CheckVersionLine(header));
  RING_RETURN_IF_ERROR(CheckNoPayload(header));
  std::uint64_t cells = CellsOf(header.size_class);
  if (!entry.ranges.empty()) cells = 0;
  for (const Range& range : entry.ranges) cells += range.length_cells;
  if (header.value_length > cells * kCellSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("value_length=", header.value_length, " in ranges of cells=", cells));
  }
  return absl::OkStatus();
}

absl::Status CheckTombstone(const EntryHeader& header) {
  RING_RETURN_IF_ERROR(CheckVersionLine(header));
  RING_RETURN_IF_ERROR(CheckNoPayload(header));
  if (header.size_class == 0 && header.value_length == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tombstone with size_class=", int{header.size_class}, " value_length=", header.value_length));
}

// Whole pages; the payload, for a parity, is what makes them zero.
absl::Status CheckRelease(const EntryHeader& header) {
  constexpr std::uint32_t kPageSize = HeapSpace::kPageCells * kCellSize;
  const std::uint64_t end = header.offset_cells + std::uint64_t{header.value_length} / kCellSize;
  if (header.value_length != 0 && header.value_length % kPageSize == 0 &&
      header.offset_cells % HeapSpace::kPageCells == 0 && end <= std::uint64_t{1} << 32 &&
      (header.payload_length == 0 || header.payload_length == header.value_length)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("release of offset_cells=", header.offset_cells,
                                                 " value_length=", header.value_length,
                                                 " payload_length=", header.payload_length));
}

// Whole cells within 2^32; where it is zero there is no payload. Which cells, the parity judges.
absl::Status CheckBase(const EntryView& entry) {
  const EntryHeader& header = entry.header;
  const std::uint64_t end = header.offset_cells + std::uint64_t{header.value_length} / kCellSize;
  if (header.value_length % kCellSize == 0 && end <= std::uint64_t{1} << 32 &&
      (header.payload_length == 0 || header.payload_length == header.value_length) &&
      header.line == kNoLine && header.client.empty() && entry.key.empty() &&
      entry.ranges.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "base of offset_cells=", header.offset_cells, " value_length=", header.value_length,
      " payload_length=", header.payload_length, " line=", header.line));
}

absl::Status CheckRecord(const EntryHeader& header) {
  if (header.client.empty() || header.type == EntryType::kExpireRecord) return absl::OkStatus();
  if (header.incomplete_delta < kOutstandingMax && header.incomplete_delta <= header.seq) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("seq=", header.seq, " incomplete_delta=", header.incomplete_delta));
}

}  // namespace

absl::Status CheckEntryForFold(const EntryView& entry) {
  const EntryHeader& header = entry.header;
  RING_RETURN_IF_ERROR(CheckRecord(header));
  switch (header.type) {
    case EntryType::kPut:
      return CheckPut(header);
    case EntryType::kPart:
      return absl::OkStatus();
    case EntryType::kFinal:
      return CheckFinal(entry);
    case EntryType::kTombstone:
      return CheckTombstone(header);
    case EntryType::kRelease:
      return CheckRelease(header);
    case EntryType::kCollect:
      return CheckNoPayload(header);
    case EntryType::kRecord:
    case EntryType::kExpireRecord:
      if (header.client.empty()) return absl::InvalidArgumentError("a record without a client");
      return CheckNoPayload(header);
    case EntryType::kBase:
      return CheckBase(entry);
    case EntryType::kPad:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("type=", static_cast<int>(header.type)));
}

}  // namespace ring::memgest
