// ring/node/retired_rings.h — ring memory that a peer may still be writing to.
//
// What:      RetiredRings keeps the memory of rings whose connections ended until no copy into it
//            can be under way: a peer that maps this node's memory and was stopped in the middle of
//            one goes on when it is woken, and its bytes must not land in another ring.
// Shape:     safe is what the peer's end of the connection let go of, or a dead one's: the device
//            knows (PeerHoldsOn). What a peer says by another way may be older than its copy.
// Ownership: owns the buffers until they go back to the pool.
// Threads:   one, the node's.
// Errors:    none. A peer that is stopped for ever costs the rings it wrote to.
// Source:    rule L5.
#ifndef RING_NODE_RETIRED_RINGS_H_
#define RING_NODE_RETIRED_RINGS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rdma/fabric.h"
#include "ring/base/mutant.h"
#include "ring/node/buffer_pool.h"

namespace ring::node {

class RetiredRings {
 public:
  RetiredRings(const rdma::Device* device, BufferPool* pool) : device_(device), pool_(pool) {}
  ~RetiredRings() {
    for (Ring& ring : rings_) pool_->GiveBack(std::move(ring.buffer));
  }
  RetiredRings(const RetiredRings&) = delete;
  RetiredRings& operator=(const RetiredRings&) = delete;

  // REQUIRES: the queue pair that its peer wrote by is gone.
  void Add(std::uint32_t qp_number, BufferPool::Buffer ring) {
    if (ring.address == nullptr) return;
    if (!device_->PeerHoldsOn(qp_number) || Mutant("L5-retired"))
      return pool_->GiveBack(std::move(ring));
    ring.region.reset();
    rings_.push_back({qp_number, std::move(ring)});
  }
  // Gives the pool what became safe: before a ring is taken from it.
  void Reclaim() {
    const auto safe = std::partition(rings_.begin(), rings_.end(), [this](const Ring& ring) {
      return device_->PeerHoldsOn(ring.qp_number);
    });
    for (auto ring = safe; ring != rings_.end(); ++ring) pool_->GiveBack(std::move(ring->buffer));
    rings_.erase(safe, rings_.end());
  }
  std::size_t size() const { return rings_.size(); }

 private:
  struct Ring {
    std::uint32_t qp_number;
    BufferPool::Buffer buffer;
  };

  const rdma::Device* device_;
  BufferPool* pool_;
  std::vector<Ring> rings_;
};

}  // namespace ring::node

#endif  // RING_NODE_RETIRED_RINGS_H_
