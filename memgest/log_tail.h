// memgest/log_tail.h — raw entries of one log on their way from a sealed ring to another node.
//
// What:      TailEncoder cuts entries, as they stand in the ring, into pieces; TailDecoder puts
//            them together again and checks each as an entry of a ring is checked (E4), but for its
//            place in a ring, of which the index says what is missing, and its payload, which may
//            have been damaged in that ring (F10): who folds it looks.
// Shape:     a piece is a 24-byte header and then some of the stream, at most kPieceSizeMax in
//            all; the stream is entry after entry, each a multiple of 64 bytes. An entry may lie in
//            several pieces.
// Units:     bytes.
// Ownership: the decoder keeps bytes of the entry that is not whole yet: at most one entry.
// Threads:   one.
// Errors:    TailDecoder: kInvalidArgument naming the field; it takes nothing more then. A piece
//            that was taken before is ignored.
// Cost:      one copy of the entries on either side.
// Source:    step 5 of an epoch change: entries are copied from rings, never rebuilt.
#ifndef RING_MEMGEST_LOG_TAIL_H_
#define RING_MEMGEST_LOG_TAIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "memgest/log_entry.h"
#include "memgest/piece_size.h"

namespace ring::memgest {

inline constexpr std::size_t kEntrySizeMax =
    kEntryHeadSizeMax + kPayloadSizeMax + kEntryTrailerSize;

class TailEncoder {
 public:
  void Add(const EntryView& entry);
  // All pieces, the last one marked; at least one, also without entries.
  std::vector<std::string> Take();

 private:
  void AddBytes(absl::string_view bytes);
  void EndPiece(bool last);

  std::vector<std::string> pieces_;
  std::string piece_;
};

class TailDecoder {
 public:
  // Takes the next piece and shows the entries that are whole with it. `visit` may refuse an entry:
  // its error is given, and the decoder takes nothing more.
  absl::Status Add(absl::string_view piece,
                   absl::FunctionRef<absl::Status(const EntryView&)> visit);
  // The last piece was taken, and no entry is cut off.
  bool done() const { return done_; }

 private:
  struct Line {
    alignas(kEntryAlignment) std::byte bytes[kEntryAlignment];
  };
  absl::Status TakePiece(absl::string_view piece,
                         absl::FunctionRef<absl::Status(const EntryView&)> visit);

  std::vector<Line> lines_;  // of the stream, from the entry that is not whole on
  std::uint32_t next_ = 0;   // piece
  bool done_ = false;
  absl::Status failure_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LOG_TAIL_H_
