#include "memgest/delta_arena.h"

#include <utility>

#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {

absl::StatusOr<std::unique_ptr<DeltaArena>> DeltaArena::Create(rdma::Device* device) {
  std::unique_ptr<DeltaArena> arena(new DeltaArena());
  RING_ASSIGN_OR_RETURN(std::byte* const memory,
                        device->Allocate(kSegmentCount * kSegmentSize, rdma::MemoryKind::kShared));
  RING_ASSIGN_OR_RETURN(arena->region_,
                        device->Register(memory, kSegmentCount * kSegmentSize, rdma::kLocalOnly));
  for (std::size_t i = 0; i < kSegmentCount; ++i) {
    arena->segments_[i].memory = memory + i * kSegmentSize;
  }
  return arena;
}

DeltaArena::Piece DeltaArena::Take(std::size_t size) {
  const std::size_t rounded = AlignUp(size, kCacheLine);
  RING_CHECK(rounded <= kSegmentSize) << "size=" << size;
  if (segments_[current_].used + rounded > kSegmentSize) {
    const auto next = static_cast<std::uint8_t>((current_ + 1) % kSegmentCount);
    if (segments_[next].outstanding != 0) return {};
    current_ = next;
    segments_[next].used = 0;
  }
  Segment& segment = segments_[current_];
  std::byte* const memory = segment.memory + segment.used;
  segment.used += rounded;
  ++segment.outstanding;
  return {memory, region_->lkey(), current_};
}

void DeltaArena::GiveBack(std::uint8_t number) {
  Segment& segment = segments_[number];
  RING_CHECK(segment.outstanding > 0) << "segment=" << int{number};
  if (--segment.outstanding == 0) segment.used = 0;
}

}  // namespace ring::memgest
