// memgest/snapshot.h — the metadata of some logs of a shard, in pieces that travel.
//
// What:      SnapshotWriter encodes logs at their applied indexes: lines with keys and ranges,
//            granules, how far the heap was ever used, and completion records. SnapshotReader takes
//            one piece apart. No values: those are fetched by slot (S5) or decoded.
// Shape:     a piece is PieceHeader and records, each whole; it repeats what its first records are
//            about, so that each piece can be read by itself:
//            piece := header { log { granule { line } } | client { done } }
// Units:     bytes; heap offsets in cells.
// Ownership: the snapshot owns its pieces: the whole is encoded in one step, so that it is one
//            state whatever its owner folds or serves while the pieces are fetched, in any order
//            and as often as needed.
// Threads:   one.
// Errors:    decoding: kInvalidArgument naming the field; nothing outside the piece is read.
// Cost:      56 bytes and 19 ns a line with a key of 16 bytes, 8 ms for 400 K lines, in the thread
//            that serves; 50 ns a line where it is installed (tests/memgest/fold_bench.cc). Taking
//            it bit by bit would need a copy of what changes meanwhile, which every fold and put
//            would pay for.
// Source:    rules L7, S4, X2; step 4 of an epoch change.
#ifndef RING_MEMGEST_SNAPSHOT_H_
#define RING_MEMGEST_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "memgest/completion_table.h"
#include "memgest/line_table.h"
#include "ring/base/id.h"
#include "ring/base/wire.h"

namespace ring::memgest {

inline constexpr std::size_t kSnapshotPieceSizeMax = 48 * 1024;

// A log at the point where it was taken.
struct SnapshotLog {
  MemgestId memgest;
  std::uint64_t applied = 0;
  std::uint64_t end_cells = 0;  // behind the highest cell that an entry ever wrote (S4)
};

struct Snapshot {
  std::uint64_t id = 0;
  std::vector<std::string> pieces;  // at least one, each at most kSnapshotPieceSizeMax
};

class SnapshotWriter {
 public:
  // id: not 0, another one for every snapshot that a node takes. Those of other nodes may be equal.
  explicit SnapshotWriter(std::uint64_t id);

  // What follows are lines of this log.
  void BeginLog(const SnapshotLog& log);
  // A granule of the log that was begun, whether it has lines or not: it never leaves its memgest
  // (ADR 6), and members remember it.
  void AddGranule(const LineTable& lines, std::uint32_t granule);
  // A line that holds a committed version. REQUIRES: of the log that was begun; rising numbers.
  void AddLine(const LineTable& lines, std::uint32_t number);
  // The records of these logs, and the first incomplete seq of every client, also of those without
  // records. Behind all lines. Requests under way are left out: their entries are still to come.
  void AddCompletions(const CompletionTable& completions, absl::Span<const MemgestId> logs);
  Snapshot Take();

 private:
  void StartPiece();
  void EndPiece(bool last);
  // Room for a record; `context` is repeated if a new piece begins.
  void Need(std::size_t size);

  Snapshot snapshot_;
  ByteWriter piece_;
  std::string context_;  // records that a new piece begins with
  std::size_t log_context_size_ = 0;
  std::uint32_t granule_ = kNoLine;
};

// One record of a piece, with what it is about.
struct SnapshotItem {
  enum class Kind : std::uint8_t { kLog, kGranule, kLine, kClient, kDone };
  Kind kind = Kind::kLog;
  SnapshotLog log;  // of kLog, kGranule, kLine
  // kGranule: its first line. kLine: number, and the line but for key, prev and pins.
  std::uint32_t number = 0;
  MetadataLine line;
  absl::string_view key;
  std::vector<Range> ranges;
  // kClient, kDone
  ClientId client;
  std::uint64_t first_incomplete = 0;
  CompletionRecord done;
};

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
