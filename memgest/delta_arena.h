// memgest/delta_arena.h — registered scratch memory for bytes that travel: staged values and parity
// deltas.
//
// What:      A bump allocator over a few segments. A segment starts over when everything taken from
//            it was given back, so that in the steady state the same hot bytes serve every put.
//            What must stay for long can be set aside: into a segment of its own, which goes when
//            all of it was given back.
// Units:     bytes; every piece is 64-byte aligned.
// Ownership: owns its memory (of the device's arena). A piece is given back by its segment number.
// Threads:   one, the node's.
// Errors:    Take gives null when every segment is in use: wait for completions and ask again.
//            TakeAside: what the device says, or kResourceExhausted past kAsideMax segments.
// Cost:      a compare and an add.
#ifndef RING_MEMGEST_DELTA_ARENA_H_
#define RING_MEMGEST_DELTA_ARENA_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::memgest {

class DeltaArena {
 public:
  static constexpr std::size_t kSegmentCount = 4;
  static constexpr std::size_t kSegmentSize = std::size_t{1} << 20;
  static constexpr std::size_t kAsideMax = 128;

  struct Piece {
    std::byte* memory = nullptr;
    std::uint32_t lkey = 0;
    std::uint8_t segment = 0;
  };

  static absl::StatusOr<std::unique_ptr<DeltaArena>> Create(rdma::Device* device);

  // size <= kSegmentSize. memory is null when nothing is free.
  Piece Take(std::size_t size);
  void GiveBack(std::uint8_t segment);
  // Memory of its own, of any size.
  absl::StatusOr<Piece> TakeAside(std::size_t size);
  // More than one segment is in use: who keeps pieces for long takes them from others.
  bool IsScarce() const;
  bool aside(std::uint8_t segment) const { return segment >= kSegmentCount; }
  // One more user of the segment, who gives it back.
  void Share(std::uint8_t segment);

 private:
  struct Segment {
    std::byte* memory = nullptr;
    std::size_t used = 0;
    std::uint32_t outstanding = 0;
  };

  struct Aside {
    std::uint32_t outstanding = 0;
    std::unique_ptr<rdma::MemoryRegion> region;  // null: free
  };

  explicit DeltaArena(rdma::Device* device) : device_(device) {}
  std::uint32_t& Outstanding(std::uint8_t segment) {
    return aside(segment) ? asides_[segment - kSegmentCount].outstanding
                          : segments_[segment].outstanding;
  }

  rdma::Device* device_;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::vector<Aside> asides_;
  std::array<Segment, kSegmentCount> segments_;
  std::uint8_t current_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_DELTA_ARENA_H_
