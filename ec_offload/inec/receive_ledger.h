// ec_offload/inec/receive_ledger.h — which receive completions belong to which operation.
//
// What:      ReceiveLedger: operations claim the next n completions of a receive queue in the order
//            in which they start; Take polls no more than were claimed and released, so that those
//            of later operations stay where a WAIT counts them.
// Shape:     a claim is [from, to) of the completions of one queue, counted from the last Forget.
//            A claim that was given up is a debt: what comes of it is thrown away, and nobody
//            starts on the queue before.
// Ownership: borrows the queues until Forget.
// Threads:   one.
// Errors:    none.
// Cost:      queues are looked for one by one: they are few.
#ifndef RING_EC_OFFLOAD_INEC_RECEIVE_LEDGER_H_
#define RING_EC_OFFLOAD_INEC_RECEIVE_LEDGER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rdma/fabric.h"

namespace ring::ec_offload {

class ReceiveLedger {
 public:
  struct Claim {
    rdma::CompletionQueue* cq = nullptr;
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };

  Claim Add(rdma::CompletionQueue* cq, std::uint32_t count) {
    Queue& queue = At(cq);
    const std::uint64_t from = std::exchange(queue.claimed, queue.claimed + count);
    return {cq, from, queue.claimed};
  }
  // Whether an operation may start on the queue.
  bool Settled(rdma::CompletionQueue* cq) { return At(cq).taken >= At(cq).debt; }
  // All its completions were taken.
  bool Complete(const Claim& claim) { return At(claim.cq).taken >= claim.to; }
  // Completions of the claim may be polled: no WAIT that is still to be posted counts them.
  void Release(const Claim& claim) {
    Queue& queue = At(claim.cq);
    queue.due = std::max(queue.due, claim.to);
  }
  void GiveUp(const Claim& claim) {
    Release(claim);
    Queue& queue = At(claim.cq);
    queue.debt = std::max(queue.debt, claim.to);
  }
  // All that anybody claimed.
  void GiveUpAll() {
    for (Queue& queue : queues_) queue.due = queue.debt = queue.claimed;
  }
  void Forget(rdma::CompletionQueue* cq) {
    std::erase_if(queues_, [cq](const Queue& queue) { return queue.cq == cq; });
  }

  // Polls what was released; calls on_completion(cq, number, completion) for each. Gives how many.
  template <class OnCompletion>
  std::size_t Take(OnCompletion&& on_completion) {
    std::size_t total = 0;
    for (Queue& queue : queues_) {
      while (queue.taken < queue.due) {
        const std::size_t wanted =
            std::min<std::uint64_t>(completions_.size(), queue.due - queue.taken);
        const std::size_t count = queue.cq->Poll(absl::MakeSpan(completions_).subspan(0, wanted));
        for (std::size_t i = 0; i < count; ++i)
          on_completion(queue.cq, queue.taken++, completions_[i]);
        total += count;
        if (count < wanted) break;
      }
    }
    return total;
  }
  // Queues of which something is to come that may be polled.
  void ArmDue() {
    for (Queue& queue : queues_) {
      if (queue.taken < queue.due) queue.cq->Arm();
    }
  }

 private:
  struct Queue {
    rdma::CompletionQueue* cq = nullptr;
    std::uint64_t claimed = 0;
    std::uint64_t taken = 0;
    std::uint64_t due = 0;   // up to here it may be polled
    std::uint64_t debt = 0;  // up to here it must have been, before the next operation
  };
  Queue& At(rdma::CompletionQueue* cq) {
    for (Queue& queue : queues_) {
      if (queue.cq == cq) return queue;
    }
    return queues_.emplace_back(Queue{.cq = cq});
  }

  std::vector<Queue> queues_;
  std::array<rdma::WorkCompletion, 16> completions_;  // of one call; clearing it would cost more
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_INEC_RECEIVE_LEDGER_H_
