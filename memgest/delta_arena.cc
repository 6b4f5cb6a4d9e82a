#include "memgest/delta_arena.h"

#include <algorithm>
#include <utility>

#include "rdma/local_memory.h"
#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {

absl::StatusOr<std::unique_ptr<DeltaArena>> DeltaArena::Create(rdma::Device* device) {
  std::unique_ptr<DeltaArena> arena(new DeltaArena(device));
  RING_ASSIGN_OR_RETURN(arena->region_, rdma::AllocateLocal(device, kSegmentCount * kSegmentSize));
  for (std::size_t i = 0; i < kSegmentCount; ++i) {
    arena->segments_[i].memory = arena->region_->address() + i * kSegmentSize;
  }
  return arena;
}

DeltaArena::Piece DeltaArena::Take(std::size_t size) {
  const std::size_t rounded = AlignUp(size, kCacheLine);
  RING_CHECK(rounded <= kSegmentSize) << "size=" << size;
  if (segments_[current_].used + rounded > kSegmentSize) {
    std::size_t next = current_;
    do {
      next = (next + 1) % kSegmentCount;
      if (next == current_) return {};
    } while (segments_[next].outstanding != 0);
    current_ = static_cast<std::uint8_t>(next);
    segments_[next].used = 0;
  }
  Segment& segment = segments_[current_];
  std::byte* const memory = segment.memory + segment.used;
  segment.used += rounded;
  ++segment.outstanding;
  return {memory, region_->lkey(), current_};
}

void DeltaArena::GiveBack(std::uint8_t number) {
  std::uint32_t& outstanding = Outstanding(number);
  RING_CHECK(outstanding > 0) << "segment=" << int{number};
  if (--outstanding > 0) return;
  if (!aside(number)) {
    segments_[number].used = 0;
    return;
  }
  rdma::FreeLocal(device_, std::move(asides_[number - kSegmentCount].region));
}

absl::StatusOr<DeltaArena::Piece> DeltaArena::TakeAside(std::size_t size) {
  std::size_t place = 0;
  while (place < asides_.size() && asides_[place].region != nullptr) ++place;
  if (place == kAsideMax) {
    return absl::ResourceExhaustedError("delta arena: too much was set aside");
  }
  RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::MemoryRegion> region,
                        rdma::AllocateLocal(device_, size));
  if (place == asides_.size()) asides_.emplace_back();
  Aside& aside = asides_[place];
  aside.outstanding = 1;
  aside.region = std::move(region);
  return Piece{aside.region->address(), aside.region->lkey(),
               static_cast<std::uint8_t>(kSegmentCount + place)};
}

bool DeltaArena::IsScarce() const {
  const auto in_use = std::count_if(segments_.begin(), segments_.end(), [](const Segment& segment) {
    return segment.outstanding != 0;
  });
  return in_use > 1;
}

void DeltaArena::Share(std::uint8_t segment) { ++Outstanding(segment); }

}  // namespace ring::memgest
