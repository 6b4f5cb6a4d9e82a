// api/client_ring.h — the client's end of a request ring: where the next request goes.
//
// What:      RequestRing places requests and PADs, counts stamps and free cells.
// Shape:     positions are cells counted from the connection's start and never wrap; the place in
//            the ring is position mod kCells. No request lies in the last cell, and the cell behind
//            a request is free, because its first 8 bytes are zeroed with it.
// Units:     cells of 64 bytes.
// Threads:   thread-compatible; pure accounting, touches no memory of a ring.
// Errors:    Reserve gives false while answers are outstanding.
// Source:    ring/protocol/client_frame.h.
#ifndef RING_API_CLIENT_RING_H_
#define RING_API_CLIENT_RING_H_

#include <algorithm>
#include <cstdint>

#include "ring/protocol/limits.h"

namespace ring::api {

class RequestRing {
 public:
  static constexpr std::uint64_t kCells = protocol::kRequestRingSize / protocol::kCell;

  struct Place {
    bool pad = false;  // write a PAD first, and before it zero the word of cell 0
    std::uint32_t pad_stamp = 0;
    std::uint64_t pad_cell = 0;
    std::uint32_t stamp = 0;
    std::uint64_t cell = 0;  // of the header
    std::uint64_t end = 0;   // position behind the request: hand it to Answered
  };

  // REQUIRES: 1 <= cells <= kRequestSizeMax / kCell + 1.
  bool Reserve(std::uint64_t cells, Place* place) {
    const std::uint64_t at = tail_ % kCells;
    // The request must end before the last cell.
    const bool pad = at + cells > kCells - 1;
    const std::uint64_t skipped = pad ? kCells - at : 0;
    // One more for the word that is zeroed behind the request.
    if (tail_ - head_ + skipped + cells + 1 > kCells) return false;
    place->pad = pad;
    if (pad) {
      place->pad_stamp = NextStamp();
      place->pad_cell = at;
      tail_ += skipped;
    }
    place->stamp = NextStamp();
    place->cell = tail_ % kCells;
    tail_ += cells;
    place->end = tail_;
    return true;
  }

  // The node consumed everything up to and including the request that ends at `end`.
  void Answered(std::uint64_t end) { head_ = std::max(head_, end); }

  std::uint64_t used() const { return tail_ - head_; }
  // For tests of what happens when stamps wrap.
  void set_next_stamp(std::uint32_t stamp) { stamp_ = stamp; }

 private:
  std::uint32_t NextStamp() {
    const std::uint32_t stamp = stamp_;
    if (++stamp_ == 0) stamp_ = 1;  // 0 means: nothing here
    return stamp;
  }
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint32_t stamp_ = 1;
};

}  // namespace ring::api

#endif  // RING_API_CLIENT_RING_H_
