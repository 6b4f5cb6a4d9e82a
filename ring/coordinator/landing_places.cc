#include "ring/coordinator/landing_places.h"

#include <utility>

#include "memgest/log_entry.h"
#include "ring/base/status.h"

namespace ring::coordinator {

LandingPlaces::~LandingPlaces() {
  for (std::unique_ptr<rdma::MemoryRegion>& region : regions_) {
    std::byte* const memory = region->address();
    region.reset();
    device_->Free(memory, kChunkSize, rdma::MemoryKind::kShared);
  }
}

absl::Status LandingPlaces::AddChunk() {
  RING_ASSIGN_OR_RETURN(std::byte* const memory,
                        device_->Allocate(kChunkSize, rdma::MemoryKind::kShared));
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> region =
      device_->Register(memory, kChunkSize, rdma::kLocalOnly);
  if (!region.ok()) {
    device_->Free(memory, kChunkSize, rdma::MemoryKind::kShared);
    return region.status();
  }
  for (std::size_t end = kChunkSize; end > 0; end -= memgest::kPayloadSizeMax)
    free_.push_back({memory + end - memgest::kPayloadSizeMax, (*region)->lkey()});
  regions_.push_back(*std::move(region));
  return absl::OkStatus();
}

absl::StatusOr<LandingPlace> LandingPlaces::Take() {
  static_assert(kChunkSize % memgest::kPayloadSizeMax == 0);
  if (free_.empty()) RING_RETURN_IF_ERROR(AddChunk());
  const LandingPlace place = free_.back();
  free_.pop_back();
  return place;
}

}  // namespace ring::coordinator
