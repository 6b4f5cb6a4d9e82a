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

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/soft/mapping.h"
#include "ring/base/check.h"

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
  void Push(const WorkCompletion& completion) {
    RING_CHECK(used_ < ring_.size()) << "completion queue overflow depth=" << ring_.size();
    std::size_t at = head_ + used_;
    if (at >= ring_.size()) at -= ring_.size();
    StoreWords(completion, &ring_[at]);
    ++used_;
    ++total_;
    if (completion.status != WcStatus::kSuccess) ++failures_;
    if (armed()) SignalIfArmed();
  }

  // Moves what mapped peers delivered into the queue, and what queue pairs have yet to tell.
  void Harvest();
  // A queue pair executed requests and has not looked yet whether they counted.
  void AddUnsettled(SoftQueuePair* qp) { unsettled_.push_back(qp); }
  void RemoveUnsettled(SoftQueuePair* qp);
  bool armed() const { return cell_->armed.load(std::memory_order_relaxed) != 0; }
  void AttachReceiver(SoftQueuePair* qp) { receivers_.push_back(qp); }
  void DetachReceiver(SoftQueuePair* qp);
  void Drop(const QueuePair* qp);

  // For who hands completions on and takes them out only later.
  std::size_t used() const { return used_; }
  WorkCompletion Peek(std::size_t index) const { return ring_[(head_ + index) % ring_.size()]; }
  // Places that completions have, or will have.
  std::size_t occupied() const { return used_ + reserved_; }

  // Cumulative counts, for WAIT.
  std::uint64_t total() const { return total_; }
  std::uint64_t polled() const { return polled_; }
  std::uint64_t failures() const { return failures_; }
  std::uint64_t failures_polled() const { return failures_polled_; }
  std::uint32_t cell_index() const { return cell_index_; }
  // Unlike its address, never given to another queue of the device.
  std::uint64_t serial() const { return serial_; }

 private:
  // A completion is stored and loaded as words of 8 bytes. It is polled while the stores of the
  // WRITEs before it are still on their way to the caches: a load that is wider than the stores it
  // looks for would have to wait for all of them.
  static void StoreWords(const WorkCompletion& from, WorkCompletion* to);
  static void LoadWords(const WorkCompletion& from, WorkCompletion* to);
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

inline void SoftCompletionQueue::StoreWords(const WorkCompletion& from, WorkCompletion* to) {
  static_assert(offsetof(WorkCompletion, qp) == 8 && offsetof(WorkCompletion, status) == 16 &&
                offsetof(WorkCompletion, opcode) == 17 && offsetof(WorkCompletion, has_imm) == 18 &&
                offsetof(WorkCompletion, imm) == 20 && offsetof(WorkCompletion, byte_len) == 24 &&
                sizeof(WorkCompletion) == 32);
  std::uint64_t words[] = {from.wr_id, reinterpret_cast<std::uint64_t>(from.qp),
                           static_cast<std::uint64_t>(from.status) |
                               static_cast<std::uint64_t>(from.opcode) << 8 |
                               std::uint64_t{from.has_imm} << 16 | std::uint64_t{from.imm} << 32,
                           from.byte_len};
  auto* const target = reinterpret_cast<std::byte*>(to);
  for (std::size_t i = 0; i < std::size(words); ++i) {
    __asm__("" : "+r"(words[i]));  // the compiler would make one wide store of two
    std::memcpy(target + i * sizeof(words[i]), &words[i], sizeof(words[i]));
  }
}

inline void SoftCompletionQueue::LoadWords(const WorkCompletion& from, WorkCompletion* to) {
  for (std::size_t i = 0; i < sizeof(WorkCompletion); i += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(&from) + i, sizeof(word));
    __asm__("" : "+r"(word));
    std::memcpy(reinterpret_cast<std::byte*>(to) + i, &word, sizeof(word));
  }
}

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_COMPLETION_QUEUE_H_
