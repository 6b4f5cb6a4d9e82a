// Fuzzes ReadSegment, what a voter reads from its disk: the file as it is, and one of records whose
// magic, sizes and CRCs were put right, so that what lies behind them is reached. What is valid up
// to a torn tail must read the same without that tail.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "consensus/file/log_segment.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"

namespace ring::consensus {
namespace {

constexpr std::uint64_t kNumber = 3;
constexpr ServerId kServer = MakeServerId(1, 2);
constexpr std::size_t kCrcAt = 4;
constexpr std::size_t kCheckedFrom = 8;  // the size's place, too

void Read(const std::string& file) {
  for (const bool is_last : {false, true}) {
    LogContent content;
    const absl::StatusOr<SegmentInfo> info =
        ReadSegment(file, "fuzz", kNumber, kServer, is_last, content);
    if (!info.ok()) continue;
    RING_CHECK(info->valid_size <= file.size() && (is_last || info->valid_size == file.size()));
    for (std::size_t i = 0; i < content.entries.size(); ++i) {
      RING_CHECK(content.entries[i].index == content.entries[0].index + i);
      RING_CHECK(content.entries[i].index <= info->last_index);
    }
    LogContent again;
    const absl::StatusOr<SegmentInfo> whole =
        ReadSegment(file.substr(0, info->valid_size), "fuzz", kNumber, kServer, is_last, again);
    RING_CHECK(whole.ok() && whole->valid_size == info->valid_size);
    RING_CHECK(again.entries.size() == content.entries.size() &&
               again.hard_state.term == content.hard_state.term);
  }
}

// Its records follow each other; what is left is a torn one.
std::string Mended(std::string records) {
  std::string file;
  PutSegmentRecord(kNumber, kServer, 0, file);
  for (std::size_t at = 0; records.size() - at >= kRecordHeaderSize;) {
    char* const record = records.data() + at;
    std::memcpy(record, &kRecordMagic, sizeof(kRecordMagic));
    const std::size_t room = records.size() - at - kRecordHeaderSize;
    const auto size = static_cast<std::uint32_t>(
        std::min<std::size_t>(room, static_cast<std::uint8_t>(record[kCheckedFrom])));
    std::memcpy(record + kCheckedFrom, &size, sizeof(size));
    const std::uint32_t crc =
        Crc32c(record + kCheckedFrom, kRecordHeaderSize - kCheckedFrom + size);
    std::memcpy(record + kCrcAt, &crc, sizeof(crc));
    at += kRecordHeaderSize + size;
  }
  return file + records;
}

}  // namespace
}  // namespace ring::consensus

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ring::consensus::Read(bytes);
  ring::consensus::Read(ring::consensus::Mended(bytes));
  return 0;
}
