// consensus/file/log_segment.h — the records of a log file.
//
// What:      encoding of records, and ReadSegment, which tells a torn tail from corruption.
// Shape:     a record is {magic u32, crc u32, size u32, type u32, batch u64} and `size` bytes. crc
//            is the CRC-32C of what follows it. batch is the offset in the file at which the write
//            that holds the record began: whatever is before it was durable then.
// Ownership: decoded records own their bytes.
// Threads:   pure.
// Errors:    kDataLoss with file and offset.
// Source:    the log format of LevelDB (db/log_format.h) for the idea of a self-checking record.
#ifndef RING_CONSENSUS_FILE_LOG_SEGMENT_H_
#define RING_CONSENSUS_FILE_LOG_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "consensus/types.h"

namespace ring::consensus {

// On disk: never renumber.
enum class RecordType : std::uint32_t {
  kSegment = 1,    // the first record of a file: format version, the file's number, the server
  kHardState = 2,  // takes the place of every earlier one
  kEntry = 3,      // the log ends before its index, and goes on with it
  kReset = 4,      // no entry before this record counts: a leader's snapshot took their place
};

inline constexpr std::uint32_t kRecordMagic = 0x474f4c52;  // "RLOG"
// Raised with the format, and whenever a build would apply old entries otherwise than those that
// wrote them did: servers whose snapshots are of different entries would not agree.
inline constexpr std::uint32_t kSegmentVersion = 4;
inline constexpr std::size_t kRecordHeaderSize = 24;

// Each appends one record to a write that begins at offset `batch`.
void PutSegmentRecord(std::uint64_t number, ServerId server, std::uint64_t batch,
                      std::string& bytes);
void PutHardStateRecord(const HardState& state, std::uint64_t batch, std::string& bytes);
void PutEntryRecord(const Entry& entry, std::uint64_t batch, std::string& bytes);
void PutResetRecord(std::uint64_t batch, std::string& bytes);

// What the records of all files of a directory, read in order, come to.
struct LogContent {
  HardState hard_state;
  std::vector<Entry> entries;
};

struct SegmentInfo {
  std::uint64_t valid_size = 0;  // behind it is a torn write, or nothing
  LogIndex last_index = 0;       // highest index of any entry in it
};

// Adds a file's records to `content`. Only the last file of a log may end in a torn write: bytes
// that are no record and behind which no later write succeeded. A last file without a whole first
// record has valid_size 0.
absl::StatusOr<SegmentInfo> ReadSegment(absl::string_view bytes, absl::string_view path,
                                        std::uint64_t number, ServerId server, bool is_last,
                                        LogContent& content);

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_FILE_LOG_SEGMENT_H_
