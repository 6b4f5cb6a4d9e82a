#include "ring/coordinator/landing_places.h"

#include <utility>

#include "memgest/log_entry.h"
#include "ring/base/status.h"

namespace ring::coordinator {

LandingPlaces::~LandingPlaces() {
  for (std::unique_ptr<rdma::MemoryRegion>& region : regions_) {
    std::byte* const memory = region->address();
    region.reset();
    device_->Free(memory, memgest::kPayloadSizeMax, rdma::MemoryKind::kShared);
  }
}

absl::StatusOr<LandingPlace> LandingPlaces::Take() {
  if (free_.empty()) {
    RING_ASSIGN_OR_RETURN(std::byte* const memory,
                          device_->Allocate(memgest::kPayloadSizeMax, rdma::MemoryKind::kShared));
    RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::MemoryRegion> region,
                          device_->Register(memory, memgest::kPayloadSizeMax, rdma::kLocalOnly));
    free_.push_back({memory, region->lkey()});
    regions_.push_back(std::move(region));
  }
  const LandingPlace place = free_.back();
  free_.pop_back();
  return place;
}

}  // namespace ring::coordinator
