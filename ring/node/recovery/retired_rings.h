// ring/node/recovery/retired_rings.h — ring memory that a coordinator may still be writing to.
//
// What:      RetiredRings keeps the memory of revoked rings until it is certain that no copy into
//            it is under way: an initiator that was stopped in the middle of one goes on when it is
//            woken, and its bytes must not land in another ring.
// Shape:     safe is what the coordinator's same start was seen to leave behind: it runs one copy
//            at a time, and connected again since; or what a start wrote that is dead.
// Ownership: owns the buffers until they go back to the pool.
// Threads:   one, the node's.
// Errors:    none. A coordinator that is never heard of again costs the rings it wrote to.
// Source:    rule L5.
#ifndef RING_NODE_RECOVERY_RETIRED_RINGS_H_
#define RING_NODE_RECOVERY_RETIRED_RINGS_H_

#include <utility>
#include <vector>

#include "ring/base/id.h"
#include "ring/base/mutant.h"
#include "ring/cluster/normal_record.h"
#include "ring/node/buffer_pool.h"

namespace ring::node {

class RetiredRings {
 public:
  explicit RetiredRings(BufferPool* pool) : pool_(pool) {}
  ~RetiredRings() {
    Release([](const cluster::Holder&) { return true; });
  }
  RetiredRings(const RetiredRings&) = delete;
  RetiredRings& operator=(const RetiredRings&) = delete;

  // REQUIRES: revoked, and its queue pair is gone.
  void Add(const cluster::Holder& writer, BufferPool::Buffer ring) {
    if (Mutant("L5-retired")) return pool_->GiveBack(std::move(ring));
    if (ring.address != nullptr) rings_.push_back({writer, std::move(ring)});
  }
  // This start of a coordinator connects: what it wrote to before, it has finished with.
  void OnConnect(const cluster::Holder& writer) {
    Release([&writer](const cluster::Holder& other) { return other == writer; });
  }
  // The node has another incarnation now, and its process is gone. Incarnation(): it was added, and
  // no start of it registered, which says nothing of the process that it had (L5).
  void OnIncarnation(NodeId node, Incarnation incarnation) {
    if (incarnation == Incarnation()) return;
    Release([=](const cluster::Holder& other) {
      return other.node == node && other.incarnation != incarnation;
    });
  }
  std::size_t size() const { return rings_.size(); }

 private:
  struct Ring {
    cluster::Holder writer;
    BufferPool::Buffer buffer;
  };
  template <class IsSafe>
  void Release(IsSafe is_safe) {
    std::vector<Ring> kept;
    for (Ring& ring : rings_) {
      if (is_safe(ring.writer)) {
        pool_->GiveBack(std::move(ring.buffer));
      } else {
        kept.push_back(std::move(ring));
      }
    }
    rings_ = std::move(kept);
  }

  BufferPool* pool_;
  std::vector<Ring> rings_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_RETIRED_RINGS_H_
