// rdma/faulty/faulty_queue_pair.h — a queue pair, and a completion queue, to which faults happen.
//
// What:      FaultyQueuePair posts what it is given to the queue pair below, changed where the plan
//            says so; FaultyCompletionQueue gives what comes out of the queue below, late where the
//            plan says so, and tells a request that was made to fail by the status asked for.
// Shape:     a request fails because a WRITE with a key that no peer ever gave out stands in its
//            place: so errors, flushes and disconnects are those of the device below, at both ends.
// Ownership: own what they wrap. Queue pairs point to their queues and go first. The bytes of a
//            flipped WRITE are kept until a later signalled request completes.
// Threads:   one, the device's.
// Errors:    as the device below.
// Cost:      without a fault one virtual call and a walk over the chain.
// Source:    fault classes F7, F8, F10.
#ifndef RING_RDMA_FAULTY_FAULTY_QUEUE_PAIR_H_
#define RING_RDMA_FAULTY_FAULTY_QUEUE_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rdma/fabric.h"
#include "rdma/faulty/fault_plan.h"

namespace ring::rdma {

class FaultyQueuePair;

class FaultyCompletionQueue final : public CompletionQueue {
 public:
  FaultyCompletionQueue(FaultPlan* plan, std::unique_ptr<CompletionQueue> below)
      : plan_(plan), below_(std::move(below)) {}

  std::size_t Poll(absl::Span<WorkCompletion> completions) override;
  void Arm() override { below_->Arm(); }

  CompletionQueue* below() const { return below_.get(); }
  // The queue pair is going.
  void Drop(const FaultyQueuePair* qp);

 private:
  struct Held {
    std::uint64_t due_ns = 0;
    std::uint64_t clears = 0;  // of the plan: once faults are cleared, nothing is late any more
    WorkCompletion completion;
  };
  std::size_t TakeDue(absl::Span<WorkCompletion> completions);

  FaultPlan* plan_;
  std::unique_ptr<CompletionQueue> below_;
  std::deque<Held> held_;  // late ones
};

class FaultyQueuePair final : public QueuePair {
 public:
  FaultyQueuePair(FaultPlan* plan, Device* device, std::unique_ptr<QueuePair> below,
                  FaultyCompletionQueue* send_cq, FaultyCompletionQueue* recv_cq,
                  std::string address);
  ~FaultyQueuePair() override;

  std::uint32_t number() const override { return below_->number(); }
  QpState state() const override { return below_->state(); }
  absl::Status PostSend(const WorkRequest& chain) override;
  absl::Status PostRecv(std::uint64_t wr_id, absl::Span<const Sge> sges) override {
    return below_->PostRecv(wr_id, sges);
  }
  void Reset() override { below_->Reset(); }
  std::uint32_t PeerSleep() const override { return below_->PeerSleep(); }
  absl::string_view transport() const override { return below_->transport(); }

  // --- for the completion queue ---
  // What the owner is told of it.
  void Tell(WorkCompletion* completion);
  int held = 0;  // completions that come late

 private:
  // The bytes of a WRITE with one bit changed.
  struct Flipped {
    std::unique_ptr<std::byte[]> bytes;
    std::unique_ptr<MemoryRegion> region;
    std::uint64_t done_at = 0;  // so many signalled requests are complete: it is not read any more
  };
  struct Doomed {
    std::uint64_t wr_id = 0;
    Opcode opcode = Opcode::kWrite;
    WcStatus status = WcStatus::kRetryExceeded;
  };
  // What is posted in place of a chain.
  struct Changed;

  void Change(const WorkRequest& request, Changed* to);
  bool Flip(WorkRequest* request, Changed* to);
  void Tear(const WorkRequest& request, Changed* to);
  void Doom(const WorkRequest& request, WcStatus status, Changed* to);

  FaultPlan* plan_;
  Device* device_;  // below
  std::unique_ptr<QueuePair> below_;
  FaultyCompletionQueue* send_cq_;
  FaultyCompletionQueue* recv_cq_;
  const std::string address_;  // of the peer; empty: it connected
  std::optional<Doomed> doomed_;
  std::uint64_t signalled_posted_ = 0;
  std::uint64_t signalled_done_ = 0;
  std::deque<Flipped> flipped_;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_FAULTY_FAULTY_QUEUE_PAIR_H_
