#include "rdma/soft/completion_queue.h"

#include <algorithm>

#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "ring/base/check.h"

namespace ring::rdma::soft {
namespace {
constexpr std::size_t kUnsettledReserve = 64;
}  // namespace

SoftCompletionQueue::SoftCompletionQueue(SoftDevice* device, std::uint32_t cell_index,
                                         std::uint64_t serial, std::size_t depth)
    : device_(device),
      cell_(&device->mapping()->control()->cqs[cell_index]),
      cell_index_(cell_index),
      serial_(serial),
      ring_(depth) {
  unsettled_.reserve(kUnsettledReserve);
}

SoftCompletionQueue::~SoftCompletionQueue() {
  RING_CHECK(receivers_.empty()) << "completion queue destroyed before its queue pairs";
  cell_->armed.store(0, std::memory_order_relaxed);
  device_->ReleaseCqCell(cell_index_);
}

void SoftCompletionQueue::SignalIfArmed() {
  if (cell_->armed.exchange(0, std::memory_order_seq_cst) != 0) device_->mapping()->Wake();
}

// By position: a queue pair that finds a failure pushes here, but adds nothing.
void SoftCompletionQueue::SettleAll() {
  for (std::size_t i = 0; i < unsettled_.size(); ++i) unsettled_[i]->SettleHeld();
  unsettled_.clear();
}

void SoftCompletionQueue::RemoveUnsettled(SoftQueuePair* qp) {
  unsettled_.erase(std::remove(unsettled_.begin(), unsettled_.end(), qp), unsettled_.end());
}

void SoftCompletionQueue::Harvest() {
  if (!unsettled_.empty()) SettleAll();
  if (cell_->ready.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t ready = cell_->ready.exchange(0, std::memory_order_acquire);
  // By position: harvesting may fail a queue pair, which detaches nothing but may push to this
  // queue.
  for (std::size_t i = 0; i < receivers_.size(); ++i) {
    if ((ready >> (receivers_[i]->mailbox_index() % 64) & 1) != 0) receivers_[i]->HarvestArrivals();
  }
}

std::size_t SoftCompletionQueue::Poll(absl::Span<WorkCompletion> completions) {
  Harvest();
  if (device_->has_deferred()) device_->RunDeferred();
  const std::size_t count = std::min(completions.size(), used_);
  for (std::size_t i = 0; i < count; ++i) {
    LoadWords(ring_[head_], &completions[i]);
    if (completions[i].status != WcStatus::kSuccess) ++failures_polled_;
    if (++head_ == ring_.size()) head_ = 0;
  }
  used_ -= count;
  if (used_ == 0) head_ = 0;  // the same few cache lines again, not a walk through the whole ring
  polled_ += count;
  device_->mutable_counters().completions += count;
  return count;
}

void SoftCompletionQueue::Arm() {
  // The exchange orders the arming before the look at `ready` that follows (the peer does the
  // reverse).
  cell_->armed.exchange(1, std::memory_order_seq_cst);
  device_->NoteArmed();
  if (!unsettled_.empty()) SettleAll();
}

void SoftCompletionQueue::DetachReceiver(SoftQueuePair* qp) {
  receivers_.erase(std::remove(receivers_.begin(), receivers_.end(), qp), receivers_.end());
}

void SoftCompletionQueue::Drop(const QueuePair* qp) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    const WorkCompletion completion = ring_[(head_ + i) % ring_.size()];
    if (completion.qp == qp) {
      ++polled_;
      if (completion.status != WcStatus::kSuccess) ++failures_polled_;
      continue;
    }
    ring_[(head_ + kept++) % ring_.size()] = completion;
  }
  used_ = kept;
}

}  // namespace ring::rdma::soft
