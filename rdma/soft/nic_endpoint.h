// rdma/soft/nic_endpoint.h — the seam to a network card that reaches memory by itself.
//
// What:      NicEndpoint: an endpoint that has to know the device's memory, since the card reads
//            and writes it without the host, and that is told when the device's thread sleeps,
//            since what the card writes wakes nobody.
// Shape:     until OnAllocate gave OK no request may name the memory; until OnRegister gave OK no
//            peer may. After OnClose returned no peer's WRITE or atomic on the region succeeds
//            (L5).
// Ownership: see endpoint.h.
// Threads:   the device's.
// Errors:    kResourceExhausted: the memory cannot be pinned.
#ifndef RING_RDMA_SOFT_NIC_ENDPOINT_H_
#define RING_RDMA_SOFT_NIC_ENDPOINT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

// A registered region, under the key by which messages name it.
struct RegionRange {
  std::uint32_t key = 0;
  std::byte* address = nullptr;
  std::size_t length = 0;
  std::uint32_t access = 0;
};

// Told of regions that end.
class RegionWatcher {
 public:
  virtual ~RegionWatcher() = default;
  virtual void OnClose(std::uint32_t key) = 0;    // revoked: from now on no peer may use it
  virtual void OnRelease(std::uint32_t key) = 0;  // gone, after OnClose
};

class NicEndpoint : public Endpoint, public RegionWatcher {
 public:
  virtual absl::Status OnAllocate(std::byte* address, std::size_t size) = 0;
  virtual void OnFree(std::byte* address, std::size_t size) = 0;
  virtual absl::Status OnRegister(const RegionRange& range) = 0;
  // Whether the card may write there: such pages must stay what they are.
  virtual bool IsPinned(const std::byte* address, std::size_t size) const = 0;
  // Until the thread is awake again: the card's next completion makes its descriptor readable, and
  // peers send a message with what they write.
  virtual void PrepareToSleep(bool sleeping) = 0;
  virtual absl::Status CardStatus() const = 0;  // see Device
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_NIC_ENDPOINT_H_
