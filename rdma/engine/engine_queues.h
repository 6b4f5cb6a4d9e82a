// rdma/engine/engine_queues.h — completion queues and queue pairs, as the host's thread has them.
//
// What:      EngineCompletionQueue: what the NIC's thread published of the queue below, which keeps
//            its completions until the host polled them: so WAITs count below what they should.
//            EngineQueuePair: posts into the doorbell ring.
// Shape:     both sides count what was posted, the NIC tells how much of it is over: while the
//            difference leaves room, a post cannot be refused; else it is a call.
// Ownership: own what is below; the NIC's thread destroys it.
// Threads:   the host's, but for what is said to be the NIC's.
// Errors:    as fabric.h.
// Cost:      a poll is two loads, and a copy for each completion.
#ifndef RING_RDMA_ENGINE_ENGINE_QUEUES_H_
#define RING_RDMA_ENGINE_ENGINE_QUEUES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/engine/nic.h"
#include "rdma/fabric.h"
#include "rdma/soft/completion_queue.h"
#include "rdma/soft/queue_pair.h"
#include "ring/base/align.h"

namespace ring::rdma::engine {

// What one side adds, and the other says is over.
struct Room {
  std::uint64_t posted = 0;            // the host's
  std::uint64_t seen = 0;              // the NIC's
  std::atomic<std::uint64_t> over{0};  // of what it has seen
  // Whether there is certainly room for so many more of a depth.
  bool Has(std::size_t count, std::size_t depth) const {
    return posted - over.load(std::memory_order_acquire) + count <= depth;
  }
  void Tell(std::uint64_t occupied) { over.store(seen - occupied, std::memory_order_release); }
};

class EngineCompletionQueue final : public CompletionQueue {
 public:
  EngineCompletionQueue(Nic* nic, std::unique_ptr<CompletionQueue> below, std::size_t depth);
  ~EngineCompletionQueue() override;

  std::size_t Poll(absl::Span<WorkCompletion> completions) override;
  void Arm() override { armed_.store(1, std::memory_order_seq_cst); }

  std::uint64_t polled() const { return polled_.load(std::memory_order_relaxed); }
  std::size_t depth() const { return ring_.size(); }

  // --- NIC ---
  soft::SoftCompletionQueue* below() const {
    return static_cast<soft::SoftCompletionQueue*>(below_.get());
  }
  // Notes what the host has polled: what was posted before that is in the doorbell ring.
  void NotePolled() { noted_ = polled_.load(std::memory_order_acquire); }
  void DiscardNoted() { Discard(noted_); }
  // Takes completions out of the queue below that the host has polled.
  void Discard(std::uint64_t polled);
  // Publishes what came since; gives whether anything did.
  bool Publish();
  // Some completions were dropped below. REQUIRES: the host waits.
  void Rebuild();

  Room room;

 private:
  Nic* nic_;
  std::unique_ptr<CompletionQueue> below_;
  std::vector<WorkCompletion> ring_;  // by the number of the completion
  std::uint64_t noted_ = 0;
  alignas(kCacheLine) std::atomic<std::uint64_t> published_{0};
  std::atomic<std::uint32_t> armed_{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> polled_{0};
};

class EngineQueuePair final : public QueuePair {
 public:
  // REQUIRES: of the NIC's thread, in a call.
  EngineQueuePair(Nic* nic, std::unique_ptr<QueuePair> below, const QueuePairOptions& options);
  ~EngineQueuePair() override;

  std::uint32_t number() const override { return number_; }
  QpState state() const override { return state_.load(std::memory_order_acquire); }
  absl::Status PostSend(const WorkRequest& chain) override;
  absl::Status PostRecv(std::uint64_t wr_id, absl::Span<const Sge> sges) override;
  void Reset() override;
  std::uint32_t PeerSleep() const override;
  absl::string_view transport() const override;

  // --- NIC ---
  soft::SoftQueuePair* below() const { return static_cast<soft::SoftQueuePair*>(below_.get()); }
  void PostSendBelow(const WorkRequest& chain, std::size_t count);
  void PostRecvBelow(std::uint64_t wr_id, absl::Span<const Sge> sges);
  // Tells the host of the state below.
  void Mirror();

 private:
  bool HasRoom(std::size_t count) const;
  absl::Status PostSendInCall(const WorkRequest& chain);
  absl::Status PostRecvInCall(std::uint64_t wr_id, absl::Span<const Sge> sges);
  void AddSeen(std::size_t count);

  Nic* nic_;
  std::unique_ptr<QueuePair> below_;
  EngineCompletionQueue* send_cq_;
  EngineCompletionQueue* recv_cq_;
  std::uint32_t number_;
  std::uint32_t send_depth_;
  std::uint32_t recv_depth_;
  Room send_room_;
  Room recv_room_;
  std::atomic<QpState> state_{QpState::kInit};
};

}  // namespace ring::rdma::engine

#endif  // RING_RDMA_ENGINE_ENGINE_QUEUES_H_
