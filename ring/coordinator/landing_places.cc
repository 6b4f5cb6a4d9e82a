#include "ring/coordinator/landing_places.h"

#include <utility>

#include "memgest/log_entry.h"
#include "rdma/local_memory.h"
#include "ring/base/status.h"

namespace ring::coordinator {

LandingPlaces::~LandingPlaces() {
  for (std::unique_ptr<rdma::MemoryRegion>& region : regions_)
    rdma::FreeLocal(device_, std::move(region));
}

absl::Status LandingPlaces::AddChunk() {
  RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::MemoryRegion> region,
                        rdma::AllocateLocal(device_, kChunkSize));
  for (std::size_t end = kChunkSize; end > 0; end -= memgest::kPayloadSizeMax)
    free_.push_back({region->address() + end - memgest::kPayloadSizeMax, region->lkey()});
  regions_.push_back(std::move(region));
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
