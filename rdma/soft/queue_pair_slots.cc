// The part of SoftQueuePair that deals with requests in slots, and with receives.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "ring/base/check.h"

namespace ring::rdma::soft {
namespace {
constexpr std::size_t kSlotCountMin = 4;
}  // namespace

void SoftQueuePair::Enqueue(const WorkRequest& wr) {
  if (tail_ - head_ == slots_.size()) GrowSlots();
  if (!std::exchange(listed_, true)) device_->AddDeferred(this);
  SendSlot& slot = SlotOf(tail_);
  slot.Store(wr);
  if (wr.opcode == Opcode::kWait) {
    slot.wait = PlanWait(wr);
    WaitCursor(static_cast<SoftCompletionQueue*>(wr.wait_cq)) = slot.wait.target;
  }
  send_cq_->Reserve(1);
  ++tail_;
}

// Requests stay where they are: links read them until they are answered.
void SoftQueuePair::GrowSlots() {
  std::vector<std::unique_ptr<SendSlot>> larger(std::max(kSlotCountMin, 2 * slots_.size()));
  for (std::uint64_t i = head_; i != tail_; ++i)
    larger[i & (larger.size() - 1)] = std::move(slots_[i & (slots_.size() - 1)]);
  for (std::unique_ptr<SendSlot>& slot : larger) {
    if (slot == nullptr) slot = std::make_unique<SendSlot>();
  }
  slots_ = std::move(larger);
}

bool SoftQueuePair::BlockedTooLong(SendSlot& slot) {
  if (slot.wr.opcode == Opcode::kWait || !link_->BoundsRnrHere()) return false;
  const std::uint64_t now = device_->NowNs();
  if (slot.blocked_since_ns == 0) slot.blocked_since_ns = now;
  return now - slot.blocked_since_ns > std::uint64_t{device_->options().rnr_timeout_ms} * 1'000'000;
}

bool SoftQueuePair::Run() {
  // A completion pushed below may make the device run its deferred queue pairs, this one among
  // them.
  if (running_ || state_ != QpState::kReadyToSend) return false;
  running_ = true;
  const std::uint64_t head_before = head_;
  const std::uint64_t issue_before = issue_;
  // Nothing behind a failed request is issued. It fails the queue pair once those before it are
  // done.
  const bool failed = issue_ != head_ && SlotOf(issue_ - 1).state == SlotState::kFailed;
  while (!failed && issue_ != tail_ && state_ == QpState::kReadyToSend) {
    SendSlot& slot = SlotOf(issue_);
    if (slot.wr.opcode == Opcode::kWait) {
      static_cast<SoftCompletionQueue*>(slot.wr.wait_cq)->Harvest();
      // What it watches may stand before it in this very queue.
      Retire();
      if (state_ != QpState::kReadyToSend) break;
    }
    const IssueResult result = IssueOne(slot.wr, issue_, &slot.wait);
    if (result.state == IssueState::kBlocked) {
      if (!BlockedTooLong(slot)) break;
      slot.state = SlotState::kFailed;
      slot.status = WcStatus::kRnrRetryExceeded;
      ++issue_;
      break;
    }
    slot.state = result.state == IssueState::kDone      ? SlotState::kDone
                 : result.state == IssueState::kPending ? SlotState::kIssued
                                                        : SlotState::kFailed;
    slot.status = result.status;
    ++issue_;
    if (slot.state == SlotState::kFailed) break;
  }
  if (state_ == QpState::kReadyToSend) Retire();
  // What was issued and has no answer yet is the link's affair.
  if (issue_ == tail_ && std::exchange(listed_, false)) device_->RemoveDeferred(this);
  running_ = false;
  return head_ != head_before || issue_ != issue_before;
}

// Commits what was issued and completes the finished requests at the head, in order.
void SoftQueuePair::Retire() {
  const CommitResult result = link_->Commit();
  if (result.status != WcStatus::kSuccess) {
    SendSlot& slot = SlotOf(result.failed_sequence);
    slot.state = SlotState::kFailed;
    slot.status = result.status;
  }
  while (head_ != issue_) {
    SendSlot& slot = SlotOf(head_);
    if (slot.state == SlotState::kFailed) {
      FailSlot(head_, slot.status);
      return;
    }
    if (slot.state != SlotState::kDone) return;
    send_cq_->Release(1);
    if (slot.wr.signaled) Complete(slot.wr, WcStatus::kSuccess);
    ++head_;
  }
}

void SoftQueuePair::OnRemoteDone(std::uint64_t sequence) {
  if (state_ != QpState::kReadyToSend || !IsOutstanding(sequence)) return;
  for (std::uint64_t i = head_; i <= sequence; ++i) {
    if (SlotOf(i).state == SlotState::kIssued) SlotOf(i).state = SlotState::kDone;
  }
  Retire();
}

void SoftQueuePair::OnRemoteFailed(std::uint64_t sequence, WcStatus status) {
  if (state_ != QpState::kReadyToSend || !IsOutstanding(sequence)) return;
  for (std::uint64_t i = head_; i < sequence; ++i) {
    if (SlotOf(i).state == SlotState::kIssued) SlotOf(i).state = SlotState::kDone;
  }
  SlotOf(sequence).state = SlotState::kFailed;
  SlotOf(sequence).status = status;
  Retire();
}

void SoftQueuePair::FailSlot(std::uint64_t sequence, WcStatus status) {
  RING_CHECK(sequence == head_ && head_ != tail_) << "only the oldest request can fail";
  send_cq_->Release(1);
  Complete(SlotOf(sequence).wr, status);
  ++head_;
  if (issue_ < head_) issue_ = head_;
  EnterError();
}

void SoftQueuePair::FlushSlots() {
  for (; head_ != tail_; ++head_) {
    send_cq_->Release(1);
    Complete(SlotOf(head_).wr, WcStatus::kFlushed);
  }
  issue_ = tail_;
  if (std::exchange(listed_, false)) device_->RemoveDeferred(this);
}

void SoftQueuePair::FlushReceives() {
  while (!receives_.Empty()) {
    Arrival arrival;
    arrival.status = WcStatus::kFlushed;
    CompleteReceive(arrival);
  }
}

const Sge* SoftQueuePair::UnusableForReceive(absl::Span<const Sge> sges) const {
  for (const Sge& sge : sges) {
    if (!device_->regions().CheckLocal(sge) ||
        (mapped_ && !device_->regions().InArena(sge.address, sge.length)))
      return &sge;
  }
  return nullptr;
}

absl::Status SoftQueuePair::PostRecv(std::uint64_t wr_id, absl::Span<const Sge> sges) {
  if (state_ == QpState::kReset) {
    return absl::InvalidArgumentError(absl::StrCat("qp=", number_, " was reset"));
  }
  if (sges.size() > kRecvSgeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("receive with sges=", sges.size(), ", at most ", kRecvSgeMax));
  }
  if (const Sge* const sge = UnusableForReceive(sges); sge != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("receive buffer is not registered memory of this device: lkey=", sge->lkey,
                     " length=", sge->length));
  }
  if (receives_.Full() || !recv_cq_->HasRoom(1)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("qp=", number_, ": receive queue or its completion queue full, ",
                     "posted=", receives_.count()));
  }
  recv_cq_->Reserve(1);
  receives_.Post(wr_id, sges);
  if (state_ == QpState::kError) {
    FlushReceives();
  } else if (link_ != nullptr) {
    link_->OnReceivePosted();
  }
  return absl::OkStatus();
}

void SoftQueuePair::CompleteReceive(const Arrival& arrival) {
  WorkCompletion completion;
  completion.wr_id = receives_.Front().wr_id;
  completion.qp = this;
  completion.status = arrival.status;
  completion.opcode = arrival.opcode;
  completion.has_imm = arrival.has_imm;
  completion.imm = arrival.imm;
  completion.byte_len = arrival.status == WcStatus::kSuccess ? arrival.byte_len : 0;
  receives_.PopFront();
  recv_cq_->Release(1);
  recv_cq_->Push(completion);
}

// What an acceptor sends at once may be here before its answer is: the connection stands first.
void SoftQueuePair::HarvestArrivals() {
  Arrival arrival;
  while (state_ == QpState::kReadyToSend && receives_.PeekArrival(&arrival)) {
    CompleteReceive(arrival);
    if (arrival.status != WcStatus::kSuccess) EnterError();
  }
}

}  // namespace ring::rdma::soft
