// ring/node/retired_rings.h — memory that a peer may still be writing to: rings, and others.
//
// What:      RetiredRings keeps the memory of rings, and the buffers of control connections, whose
//            connections ended until no copy into it can be under way: a peer that maps this node's
//            memory and was stopped in the middle of one goes on when it is woken, and its bytes
//            must not land in what is another's by then.
// Shape:     safe is what the peer's end of the connection let go of, or a dead one's: the device
//            knows (PeerHoldsOn). What a peer says by another way may be older than its copy.
// Ownership: owns the buffers until they go back to the pool.
// Threads:   one, the node's.
// Errors:    none. A peer that is stopped for ever costs the memory that it wrote to.
// Cost:      Reclaim asks the device about each buffer: a few, as a peer that holds on has one of
//            the device's queue pairs (qp_count_max), too.
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
    for (Retired& retired : retired_) pool_->GiveBack(std::move(retired.buffer));
  }
  RetiredRings(const RetiredRings&) = delete;
  RetiredRings& operator=(const RetiredRings&) = delete;

  // REQUIRES: the queue pair that its peer wrote by is gone.
  void Add(std::uint32_t qp_number, BufferPool::Buffer buffer) {
    if (buffer.address == nullptr) return;
    if (!device_->PeerHoldsOn(qp_number) || Mutant("L5-retired"))
      return pool_->GiveBack(std::move(buffer));
    buffer.region.reset();
    retired_.push_back({qp_number, std::move(buffer)});
  }
  // Gives the pool what became safe: before a buffer is taken from it.
  void Reclaim() {
    const auto safe = std::partition(retired_.begin(), retired_.end(), [this](const Retired& one) {
      return device_->PeerHoldsOn(one.qp_number);
    });
    for (auto one = safe; one != retired_.end(); ++one) pool_->GiveBack(std::move(one->buffer));
    retired_.erase(safe, retired_.end());
  }
  std::size_t size() const { return retired_.size(); }

 private:
  struct Retired {
    std::uint32_t qp_number;
    BufferPool::Buffer buffer;
  };

  const rdma::Device* device_;
  BufferPool* pool_;
  std::vector<Retired> retired_;
};

}  // namespace ring::node

#endif  // RING_NODE_RETIRED_RINGS_H_
