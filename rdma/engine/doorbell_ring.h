// rdma/engine/doorbell_ring.h — requests on their way from the host's thread to the NIC's.
//
// What:      DoorbellRing: a lock-free queue of one producer and one consumer, of slots that hold a
//            request with its gather list, inline bytes and CALC arguments.
// Shape:     a chain is seen as a whole: its slots are published together.
// Ownership: slots copy everything but the buffers; a slot keeps what its vectors hold.
// Threads:   the host pushes, the NIC takes.
// Errors:    none; the pusher looks for room first.
// Cost:      a store for a chain.
#ifndef RING_RDMA_ENGINE_DOORBELL_RING_H_
#define RING_RDMA_ENGINE_DOORBELL_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/soft/send_slot.h"
#include "ring/base/align.h"
#include "ring/base/check.h"

namespace ring::rdma::engine {

class EngineQueuePair;
class EngineCompletionQueue;

struct Doorbell {
  soft::SendSlot request;
  EngineQueuePair* qp = nullptr;
  bool receive = false;
  bool last = false;  // of its chain
  // WAIT: of which queue, and what the host had polled of it.
  EngineCompletionQueue* wait_cq = nullptr;
  std::uint64_t wait_polled = 0;
};

class DoorbellRing {
 public:
  explicit DoorbellRing(std::uint32_t depth) : slots_(depth) {
    RING_CHECK(depth != 0 && (depth & (depth - 1)) == 0) << "doorbell_depth=" << depth;
  }

  // --- host ---
  bool HasRoom(std::size_t count) const {
    return next_ - head_.load(std::memory_order_acquire) + count <= slots_.size();
  }
  std::size_t size() const { return slots_.size(); }
  // REQUIRES: there is room for the whole chain.
  Doorbell& Push() { return slots_[next_++ & (slots_.size() - 1)]; }
  // seq_cst: the pusher looks whether the NIC sleeps next.
  void Publish() { tail_.store(next_, std::memory_order_seq_cst); }

  // --- NIC ---
  bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_seq_cst);
  }
  // The i-th from the oldest. REQUIRES: it was published.
  Doorbell& at(std::size_t i) {
    return slots_[(head_.load(std::memory_order_relaxed) + i) & (slots_.size() - 1)];
  }
  void Pop(std::size_t count) {
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

 private:
  std::vector<Doorbell> slots_;
  alignas(kCacheLine) std::uint64_t next_ = 0;  // the host's: pushed, maybe not yet published
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
};

}  // namespace ring::rdma::engine

#endif  // RING_RDMA_ENGINE_DOORBELL_RING_H_
