// tests/memgest/snapshot_pieces.h — all pieces of a snapshot at once.
//
// What:      AllPieces takes what a cursor or a writer has, up to the last piece.
// Ownership: values.
// Threads:   one.
// Errors:    a cursor that fails ends the test.
#ifndef RING_TESTS_MEMGEST_SNAPSHOT_PIECES_H_
#define RING_TESTS_MEMGEST_SNAPSHOT_PIECES_H_

#include <string>
#include <utility>
#include <vector>

#include "memgest/snapshot_cursor.h"
#include "ring/base/check.h"

namespace ring::memgest {

inline std::vector<std::string> AllPieces(SnapshotCursor& cursor) {
  std::vector<std::string> pieces;
  for (bool more = true; more;) {
    absl::StatusOr<SnapshotPiece> piece = cursor.Next();
    RING_CHECK(piece.ok()) << piece.status();
    pieces.push_back(std::move(piece->bytes));
    more = !piece->last;
  }
  return pieces;
}

inline std::vector<std::string> AllPieces(SnapshotWriter& writer) {
  writer.End();
  std::vector<std::string> pieces;
  while (writer.HasPiece()) pieces.push_back(writer.TakePiece());
  return pieces;
}

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_SNAPSHOT_PIECES_H_
