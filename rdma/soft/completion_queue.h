// rdma/soft/completion_queue.h — completions of one device, oldest first.
//
// What:      a ring of completions, the count that WAIT looks at, arming, and the shared cell in
//            which mapped peers mark that a mailbox has an arrival.
// Shape:     depth completions. Every request and every posted receive reserves its place when it
//            is posted, so the queue cannot overflow.
// Ownership: queue pairs point to it and go first. It drops completions of a destroyed queue pair.
// Threads:   one, the device's; the cell is shared with peers.
// Errors:    none here; the post that finds no place gives kResourceExhausted.
// Cost:      Poll of an empty queue is two loads.
#ifndef RING_RDMA_SOFT_COMPLETION_QUEUE_H_
#define RING_RDMA_SOFT_COMPLETION_QUEUE_H_

#include <cstdint>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/soft/mapping.h"

namespace ring::rdma::soft {

class SoftDevice;
class SoftQueuePair;

class SoftCompletionQueue final : public CompletionQueue {
 public:
  SoftCompletionQueue(SoftDevice* device, std::uint32_t cell_index, std::uint64_t serial,
                      std::size_t depth);
  ~SoftCompletionQueue() override;

  std::size_t Poll(absl::Span<WorkCompletion> completions) override;
  void Arm() override;

  bool HasRoom(std::size_t count) const { return used_ + reserved_ + count <= ring_.size(); }
  void Reserve(std::size_t count) { reserved_ += count; }
  void Release(std::size_t count) { reserved_ -= count; }
  // REQUIRES: the caller reserved a place or made sure of HasRoom, and has released the
  //           reservation.
  void Push(const WorkCompletion& completion);

  // Moves what mapped peers delivered into the queue, and what queue pairs have yet to tell.
  void Harvest();
  // A queue pair executed requests and has not looked yet whether they counted.
  void AddUnsettled(SoftQueuePair* qp) { unsettled_.push_back(qp); }
  void RemoveUnsettled(SoftQueuePair* qp);
  bool armed() const { return cell_->armed.load(std::memory_order_relaxed) != 0; }
  void AttachReceiver(SoftQueuePair* qp) { receivers_.push_back(qp); }
  void DetachReceiver(SoftQueuePair* qp);
  void Drop(const QueuePair* qp);

  // Cumulative counts, for WAIT.
  std::uint64_t total() const { return total_; }
  std::uint64_t polled() const { return polled_; }
  std::uint64_t failures() const { return failures_; }
  std::uint64_t failures_polled() const { return failures_polled_; }
  std::uint32_t cell_index() const { return cell_index_; }
  // Unlike its address, never given to another queue of the device.
  std::uint64_t serial() const { return serial_; }

 private:
  void SignalIfArmed();
  void SettleAll();

  SoftDevice* device_;
  CqCell* cell_;
  std::uint32_t cell_index_;
  std::uint64_t serial_;
  std::vector<WorkCompletion> ring_;
  std::size_t head_ = 0;
  std::size_t used_ = 0;
  std::size_t reserved_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t polled_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t failures_polled_ = 0;
  std::vector<SoftQueuePair*> receivers_;
  std::vector<SoftQueuePair*> unsettled_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_COMPLETION_QUEUE_H_
