// memgest/snapshot.h — the metadata of some logs of a shard, in pieces that travel.
//
// What:      SnapshotWriter encodes logs at their applied indexes: lines with keys and ranges,
//            granules, how far the heap was ever used, and completion records. SnapshotReader takes
//            one piece apart. No values: those are fetched by slot (S5) or decoded. Who says what
//            is encoded when: memgest/snapshot_cursor.h.
// Shape:     a piece is PieceHeader and records, each whole; it repeats what its first records are
//            about, so that each piece can be read by itself:
//            piece := header { client { done } | log { granule { lines | line } } }
//            Lines with keys that stand in them travel as they are, up to a granule's at once.
// Units:     bytes; heap offsets in cells.
// Ownership: the writer owns the pieces that nobody took.
// Threads:   one.
// Errors:    decoding: kInvalidArgument naming the field; nothing outside the piece is read.
// Cost:      64 bytes a line with a key of up to 24 bytes.
// Source:    rules L7, S4, X2; step 4 of an epoch change.
#ifndef RING_MEMGEST_SNAPSHOT_H_
#define RING_MEMGEST_SNAPSHOT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "memgest/completion_table.h"
#include "memgest/line_table.h"
#include "memgest/piece_size.h"
#include "ring/base/id.h"
#include "ring/base/wire.h"

namespace ring::memgest {

// A log at the point where it was taken.
struct SnapshotLog {
  MemgestId memgest;
  std::uint64_t applied = 0;
  std::uint64_t end_cells = 0;  // behind the highest cell that an entry ever wrote (S4)
};

class SnapshotWriter {
 public:
  // id: not 0, another one for every snapshot that a node takes. Those of other nodes may be equal.
  // piece_size: about as much is in a piece, and one record in each if none fits. REQUIRES: at most
  // kPieceSizeMax.
  explicit SnapshotWriter(std::uint64_t id, std::size_t piece_size = kPieceSizeMax);

  // What follows are lines of this log. One that was begun may go on, behind others.
  void BeginLog(const SnapshotLog& log);
  // A granule of the log that was begun, whether it has lines or not: it stays its memgest's
  // (ADR 6), and members remember it.
  void AddGranule(const LineTable& lines, std::uint32_t granule);
  // Lines of a granule, bit i of `mask` the i-th, that hold committed versions. REQUIRES: the
  // granule was added last.
  void AddLines(const LineTable& lines, std::uint32_t granule, std::uint64_t mask);
  // The records of these logs, and the first incomplete seq of every client, also of those without
  // records. Requests under way are left out: their entries are still to come.
  void AddCompletions(const CompletionTable& completions, absl::Span<const SnapshotLog> logs);
  // What was added is all: the last piece is complete.
  void End() { EndPiece(true); }

  // Complete pieces, in order: at least one, each at most kPieceSizeMax.
  bool HasPiece() const { return !pieces_.empty(); }
  std::string TakePiece();

 private:
  void StartPiece();
  void EndPiece(bool last);
  // Room for a record; `context` is repeated if a new piece begins.
  void Need(std::size_t size);
  void AddClient(const ClientId& id, std::uint64_t first_incomplete,
                 const CompletionTable::Client* client, absl::Span<const SnapshotLog> logs);
  // Of lines whose keys stand in them.
  void AddWhole(const LineTable& lines, std::uint32_t granule, std::uint64_t mask);
  void AddLine(const LineTable& lines, std::uint32_t number);

  std::uint64_t id_;
  std::size_t piece_size_;
  std::size_t context_end_ = 0;  // of the piece that is being written: records follow
  std::deque<std::string> pieces_;
  std::uint32_t ended_count_ = 0;  // pieces that were ever complete
  ByteWriter piece_;
  std::string context_;  // records that a new piece begins with
  std::size_t log_context_size_ = 0;
};

// One record of a piece, with what it is about.
struct SnapshotItem {
  enum class Kind : std::uint8_t { kLog, kGranule, kLines, kLine, kClient, kDone };
  Kind kind = Kind::kLog;
  SnapshotLog log;  // of kLog, kGranule, kLines, kLine
  // kGranule, kLines: the granule's first line, class and cells. kLine: number, and the line but
  // for key, prev and pins.
  std::uint32_t number = 0;
  std::uint8_t size_class = 0;
  std::uint32_t base_cells = 0;
  // kLines: bit i, the i-th of the granule; and the lines, of any alignment, but for the flags that
  // each owner sets.
  std::uint64_t mask = 0;
  absl::string_view lines;
  MetadataLine line;
  absl::string_view key;
  std::vector<Range> ranges;
  // kClient, kDone
  ClientId client;
  std::uint64_t first_incomplete = 0;
  CompletionRecord done;
};

// Calls visit(number, line) for each of kLines. Of any alignment in the piece: each is copied.
template <class Visit>
void ForEachLine(const SnapshotItem& item, Visit visit) {
  const char* at = item.lines.data();
  for (std::uint64_t left = item.mask; left != 0; left &= left - 1, at += sizeof(MetadataLine)) {
    MetadataLine line;
    std::memcpy(&line, at, sizeof(line));
    visit(item.number + static_cast<std::uint32_t>(std::countr_zero(left)), line);
  }
}

class SnapshotReader {
 public:
  // Checks header and CRC. Borrows the piece.
  static absl::StatusOr<SnapshotReader> Open(absl::string_view piece);

  std::uint64_t id() const { return id_; }
  std::uint32_t crc() const { return crc_; }
  std::uint32_t number() const { return number_; }  // of the piece, from 0
  bool last() const { return last_; }
  // False: no more. *item holds nothing of use after an error.
  absl::StatusOr<bool> Next(SnapshotItem* item);

 private:
  explicit SnapshotReader(absl::string_view records) : records_(records) {}
  absl::Status ReadLines(SnapshotItem* item);
  absl::Status CheckWhole(const MetadataLine& line, std::uint32_t index) const;
  absl::Status ReadLine(SnapshotItem* item);
  absl::Status ReadDone(SnapshotItem* item);

  ByteReader records_;
  std::uint64_t id_ = 0;
  std::uint32_t crc_ = 0;
  std::uint32_t number_ = 0;
  bool last_ = false;
  SnapshotLog log_;
  bool in_log_ = false;
  bool in_granule_ = false;
  std::uint32_t granule_ = 0;
  Granule granule_record_;
  ClientId client_;
  std::uint64_t first_incomplete_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SNAPSHOT_H_
