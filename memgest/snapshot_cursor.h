// memgest/snapshot_cursor.h — a snapshot of a shard that is encoded bit by bit, and is one state.
//
// What:      SnapshotCursor gives the pieces of a snapshot (memgest/snapshot.h) of what a shard was
//            when the cursor was made, each when it is asked for. Who changes a granule's lines
//            before their turn has them saved first; who changes more ends the snapshot.
//            SnapshotCursors are those that a shard has under way.
// Ownership: who wants the pieces owns the cursor; the shard knows of it as long as it lives.
//            Borrows lines until Abandon.
// Threads:   one, the node's.
// Errors:    Next: kAborted, the shard is gone or went on without saving: begin again.
// Cost:      making one: completion records, and a bit a granule. Next: about a piece. Save: at
//            most a granule's lines, once a granule; nothing while no snapshot is under way.
// Source:    rules L7, X2; step 4 of an epoch change.
#ifndef RING_MEMGEST_SNAPSHOT_CURSOR_H_
#define RING_MEMGEST_SNAPSHOT_CURSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "memgest/completion_table.h"
#include "memgest/line_table.h"
#include "memgest/snapshot.h"

namespace ring::memgest {

struct SnapshotPiece {
  std::string bytes;
  bool last = false;
};

class SnapshotCursor {
 public:
  // id, piece_size: as SnapshotWriter.
  SnapshotCursor(std::uint64_t id, std::size_t piece_size, const LineTable& lines,
                 const CompletionTable& completions, std::vector<SnapshotLog> logs);
  virtual ~SnapshotCursor() = default;
  SnapshotCursor(const SnapshotCursor&) = delete;
  SnapshotCursor& operator=(const SnapshotCursor&) = delete;

  // REQUIRES: the last piece was not given yet.
  absl::StatusOr<SnapshotPiece> Next();
  // The granule of this line is about to change, or to be another memgest's: what it was stays in
  // the snapshot.
  void Save(std::uint32_t line);
  void Abandon() { lines_ = nullptr; }

 private:
  // The lines of a granule that belong to the snapshot, as they are now: bit i, the i-th.
  virtual std::uint64_t Visible(const LineTable& lines, std::uint32_t granule) const = 0;
  void Encode(std::uint32_t granule);

  SnapshotWriter writer_;
  const LineTable* lines_;  // null: abandoned
  std::vector<SnapshotLog> logs_;
  std::vector<std::uint64_t> pending_;  // bit i of word w: granule 64 w + i is to be encoded yet
  std::size_t word_ = 0;                // none is below
  MemgestId log_;                       // of what was encoded last
  bool ended_ = false;
};

class SnapshotCursors {
 public:
  SnapshotCursors() = default;
  ~SnapshotCursors() { AbandonAll(); }
  SnapshotCursors(const SnapshotCursors&) = delete;
  SnapshotCursors& operator=(const SnapshotCursors&) = delete;

  void Add(const std::shared_ptr<SnapshotCursor>& cursor);
  void Save(std::uint32_t line) {
    if (!cursors_.empty()) SaveInEach(line);
  }
  void AbandonAll() {
    if (!cursors_.empty()) AbandonEach();
  }

 private:
  void SaveInEach(std::uint32_t line);
  void AbandonEach();

  std::vector<std::weak_ptr<SnapshotCursor>> cursors_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SNAPSHOT_CURSOR_H_
