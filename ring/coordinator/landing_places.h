// ring/coordinator/landing_places.h — where the pieces of a client's large value land.
//
// What:      LandingPlaces hands out registered buffers that one piece fits in, one for each large
//            write into a coded memgest; the slot itself keeps its old bytes until their delta is
//            known (S3).
// Units:     kPayloadSizeMax bytes each, 32 of them in what the arena gives at once.
// Ownership: owns the memory, of the device's arena; a place that was given back is used again.
// Threads:   one, the node's.
// Errors:    kResourceExhausted when the arena is spent.
// Cost:      memory for as many as were ever in use at once.
#ifndef RING_COORDINATOR_LANDING_PLACES_H_
#define RING_COORDINATOR_LANDING_PLACES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::coordinator {

struct LandingPlace {
  std::byte* memory = nullptr;
  std::uint32_t lkey = 0;
};

class LandingPlaces {
 public:
  explicit LandingPlaces(rdma::Device* device) : device_(device) {}
  ~LandingPlaces();
  LandingPlaces(const LandingPlaces&) = delete;
  LandingPlaces& operator=(const LandingPlaces&) = delete;

  absl::StatusOr<LandingPlace> Take();
  void GiveBack(const LandingPlace& place) { free_.push_back(place); }

 private:
  static constexpr std::size_t kChunkSize = std::size_t{2} << 20;  // the arena gives no less
  absl::Status AddChunk();

  rdma::Device* device_;
  std::vector<std::unique_ptr<rdma::MemoryRegion>> regions_;  // a chunk each
  std::vector<LandingPlace> free_;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_LANDING_PLACES_H_
