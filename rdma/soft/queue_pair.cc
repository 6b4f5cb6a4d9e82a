#include "rdma/soft/queue_pair.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/soft/attachment.h"
#include "rdma/soft/device.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {

SoftQueuePair::SoftQueuePair(SoftDevice* device, const QueuePairOptions& options,
                             std::uint32_t number, const MailboxName& mailbox, bool mapped)
    : device_(device),
      options_(options),
      send_cq_(static_cast<SoftCompletionQueue*>(options.send_cq)),
      recv_cq_(static_cast<SoftCompletionQueue*>(options.recv_cq)),
      number_(number),
      mailbox_(mailbox),
      mapped_(mapped),
      receives_(*device->mapping(), mapped ? device->mapping()->mailbox(mailbox.index) : nullptr,
                mailbox) {
  recv_cq_->AttachReceiver(this);
}

SoftQueuePair::~SoftQueuePair() {
  Reset();
  recv_cq_->DetachReceiver(this);
  send_cq_->Drop(this);
  if (recv_cq_ != send_cq_) recv_cq_->Drop(this);
  device_->Forget(this);
}

void SoftQueuePair::Establish(std::unique_ptr<Link> link) {
  link_ = std::move(link);
  state_ = QpState::kReadyToSend;
  if (mapped_) held_.reserve(std::min<std::size_t>(options_.send_depth, kHeldReserve));
}

absl::Status SoftQueuePair::PostSend(const WorkRequest& chain) {
  ChainSize size;
  RING_RETURN_IF_ERROR(CheckChain(chain, options_.send_depth, &size));
  const std::uint32_t count = size.count;
  if (held_.size() + count > options_.send_depth || !send_cq_->HasRoom(count)) Settle();
  if (count > options_.send_depth - (tail_ - head_) || !send_cq_->HasRoom(count)) {
    return absl::ResourceExhaustedError(absl::StrCat("qp=", number_, ": no room for count=", count,
                                                     " requests, outstanding=", tail_ - head_,
                                                     ": poll its completion queue"));
  }
  if (state_ != QpState::kReadyToSend) {
    if (state_ != QpState::kError) {
      return absl::InvalidArgumentError(
          absl::StrCat("qp=", number_, " is not connected: post after kEstablished"));
    }
    FlushChain(&chain);
    return absl::OkStatus();
  }
  DeviceCounters& calls = device_->mutable_counters();
  ++calls.chains;
  calls.requests += count;
  calls.request_bytes += size.bytes;
  const WorkRequest* rest = head_ == tail_ ? ExecuteNow(chain) : &chain;
  if (rest != nullptr) {
    for (; rest != nullptr; rest = rest->next) Enqueue(*rest);
    Run();
  }
  if (!mapped_ && state_ == QpState::kReadyToSend && !size.more) link_->Kick();
  if (device_->has_deferred()) device_->RunDeferred();
  return absl::OkStatus();
}

// Executes the chain; gives the first request that has to wait, or null.
const WorkRequest* SoftQueuePair::ExecuteNow(const WorkRequest& chain) {
  const WorkRequest* batch = &chain;
  std::uint64_t batch_sequence = tail_;
  std::uint64_t sequence = tail_;
  const WorkRequest* wr = &chain;
  for (; wr != nullptr; wr = wr->next, ++sequence) {
    const bool later = !mapped_ && !link_->FinishesNow(*wr);
    if (wr->opcode == Opcode::kWait && !later) {
      // What the WAIT watches may be in this very chain.
      Hold(batch, wr, batch_sequence);
      if (!Settle()) {
        FlushChain(wr);
        return nullptr;
      }
      batch = wr;
      batch_sequence = sequence;
    }
    const IssueResult result = later ? IssueResult{IssueState::kBlocked, WcStatus::kSuccess}
                                     : IssueOne(*wr, sequence, nullptr);
    if (result.state == IssueState::kDone && state_ == QpState::kReadyToSend) continue;
    if (state_ != QpState::kReadyToSend) {  // a WAIT looked, and saw this queue pair's end
      FlushChain(wr);
      return nullptr;
    }
    Hold(batch, wr, batch_sequence);
    if (!Settle()) {
      FlushChain(wr);
      return nullptr;
    }
    if (result.state == IssueState::kFailed) {
      Complete(*wr, result.status);
      EnterError();
      FlushChain(wr->next);
      return nullptr;
    }
    head_ = issue_ = tail_ = sequence;
    return wr;
  }
  head_ = issue_ = tail_ = sequence;
  // Who armed the queue waits for a signal and polls nothing.
  if (link_->CommitsForFree() || send_cq_->armed()) {
    Tell(batch, batch_sequence);
  } else {
    Hold(batch, nullptr, batch_sequence);
  }
  return nullptr;
}

// The chain from `first` on was executed: tells of it now.
void SoftQueuePair::Tell(const WorkRequest* first, std::uint64_t first_sequence) {
  if (!held_.empty()) {
    Hold(first, nullptr, first_sequence);
    Settle();
    return;
  }
  const CommitResult result = link_->Commit();
  if (result.status != WcStatus::kSuccess) {
    Hold(first, nullptr, first_sequence);
    send_cq_->RemoveUnsettled(this);
    EndHeld(result);
    return;
  }
  for (const WorkRequest* wr = first; wr != nullptr; wr = wr->next) {
    if (wr->signaled) Complete(*wr, WcStatus::kSuccess);
  }
}

// [first, end) was executed: it is told of when the link was asked whether it counted.
void SoftQueuePair::Hold(const WorkRequest* first, const WorkRequest* end,
                         std::uint64_t first_sequence) {
  if (held_.empty() && first != end) send_cq_->AddUnsettled(this);
  std::uint64_t sequence = first_sequence;
  for (const WorkRequest* wr = first; wr != end; wr = wr->next, ++sequence) {
    send_cq_->Reserve(1);
    // In its place: a copy would load more at once than was just stored, which waits until the
    // stores of the WRITEs before it have reached the caches.
    Held& held = held_.emplace_back();
    Describe(*wr, WcStatus::kSuccess, &held.completion);
    held.sequence = sequence;
    held.signaled = wr->signaled;
  }
}

// False: not all of them counted; they were failed and flushed, and the queue pair is in error.
bool SoftQueuePair::Settle() {
  if (held_.empty()) return state_ == QpState::kReadyToSend;
  send_cq_->RemoveUnsettled(this);
  SettleHeld();
  return state_ == QpState::kReadyToSend;
}

void SoftQueuePair::EndHeld(const CommitResult& result) {
  const bool counted = result.status == WcStatus::kSuccess;
  WcStatus status = result.status;
  send_cq_->Release(held_.size());
  for (Held& held : held_) {
    if (!counted && held.sequence >= result.failed_sequence) {
      held.completion.status = std::exchange(status, WcStatus::kFlushed);
      held.signaled = true;
    }
    if (held.signaled) send_cq_->Push(held.completion);
  }
  held_.clear();
  if (!counted) EnterError();
}

void SoftQueuePair::FlushChain(const WorkRequest* first) {
  for (const WorkRequest* wr = first; wr != nullptr; wr = wr->next)
    Complete(*wr, WcStatus::kFlushed);
}

IssueResult SoftQueuePair::IssueOne(const WorkRequest& wr, std::uint64_t sequence,
                                    const WaitPlan* plan) {
  if (wr.opcode == Opcode::kWait) {
    auto* cq = static_cast<SoftCompletionQueue*>(wr.wait_cq);
    const WaitPlan wait = plan != nullptr ? *plan : PlanWait(wr);
    if (cq->failures() > wait.failures && !Mutant("S11-wait"))
      return {IssueState::kFailed, WcStatus::kFlushed};
    if (cq->total() < wait.target) return {IssueState::kBlocked, WcStatus::kSuccess};
    if (plan == nullptr) WaitCursor(cq) = wait.target;
    return {IssueState::kDone, WcStatus::kSuccess};
  }
  if (wr.opcode == Opcode::kCalc) {
    const IssueResult ran = RunCalc(*wr.calc);
    const bool failed = ran.state == IssueState::kFailed;
    return failed && Mutant("S11-calc") ? IssueResult{IssueState::kDone, WcStatus::kSuccess} : ran;
  }
  if (!wr.inline_data) {
    for (const Sge& sge : wr.sges) {
      if (!device_->regions().CheckLocal(sge))
        return {IssueState::kFailed, WcStatus::kLocalProtection};
    }
  }
  return link_->Issue(wr, sequence);
}

IssueResult SoftQueuePair::RunCalc(const CalcArguments& calc) {
  constexpr std::size_t kBuffersMax = 512;
  const std::byte* inputs[kBuffersMax];
  std::byte* outputs[kBuffersMax];
  std::uint32_t crcs[kBuffersMax];
  const bool small = calc.inputs.size() <= kBuffersMax && calc.outputs.size() <= kBuffersMax;
  if (!small) return {IssueState::kFailed, WcStatus::kCalcFailed};
  Attachment* const attachment = device_->options().attachment;
  const CalcVerdict verdict = attachment == nullptr ? CalcVerdict::kRun : attachment->JudgeCalc();
  if (verdict == CalcVerdict::kLater) return {IssueState::kBlocked, WcStatus::kSuccess};
  if (verdict == CalcVerdict::kFail) return {IssueState::kFailed, WcStatus::kCalcFailed};
  for (std::size_t i = 0; i < calc.inputs.size(); ++i) {
    if (!device_->regions().CheckLocal(calc.inputs[i])) {
      return {IssueState::kFailed, WcStatus::kLocalProtection};
    }
    inputs[i] = calc.inputs[i].address;
  }
  for (std::size_t i = 0; i < calc.outputs.size(); ++i) {
    if (!device_->regions().CheckLocal(calc.outputs[i])) {
      return {IssueState::kFailed, WcStatus::kLocalProtection};
    }
    outputs[i] = calc.outputs[i].address;
  }
  if (!calc.calculator->Run(inputs, outputs, calc.inputs[0].length,
                            calc.crc_out != nullptr ? crcs : nullptr)) {
    return {IssueState::kFailed, WcStatus::kCalcFailed};
  }
  if (verdict == CalcVerdict::kWrong) outputs[0][0] ^= std::byte{1};
  for (std::size_t i = 0; calc.crc_out != nullptr && i < calc.outputs.size(); ++i) {
    if (calc.crc_out[i] != nullptr) *calc.crc_out[i] = crcs[i];
  }
  return {IssueState::kDone, WcStatus::kSuccess};
}

std::uint64_t& SoftQueuePair::WaitCursor(const SoftCompletionQueue* cq) {
  for (auto& cursor : wait_cursors_) {
    if (cursor.first == cq->serial()) return cursor.second;
  }
  return wait_cursors_.emplace_back(cq->serial(), 0).second;
}

WaitPlan SoftQueuePair::PlanWait(const WorkRequest& wr) {
  auto* cq = static_cast<SoftCompletionQueue*>(wr.wait_cq);
  cq->Harvest();
  const std::uint64_t cursor = WaitCursor(cq);
  const std::uint64_t base = cursor > cq->polled() ? cursor : cq->polled();
  return {base + wr.wait_count, cq->failures_polled()};
}

void SoftQueuePair::Complete(const WorkRequest& wr, WcStatus status) {
  WorkCompletion completion;
  Describe(wr, status, &completion);
  send_cq_->Push(completion);
}

// REQUIRES: a new completion.
void SoftQueuePair::Describe(const WorkRequest& wr, WcStatus status, WorkCompletion* completion) {
  completion->wr_id = wr.wr_id;
  completion->qp = this;
  completion->status = status;
  completion->opcode = wr.opcode;
  if (wr.opcode == Opcode::kRead) completion->byte_len = GatherLength(wr);
}

bool SoftQueuePair::ShouldReportPeerClosed() const {
  return link_ != nullptr && !peer_close_reported_ && state_ != QpState::kReset &&
         link_->PeerClosed();
}

void SoftQueuePair::OnPeerClosed() {
  if (state_ != QpState::kReadyToSend) return;
  HarvestArrivals();
  if (state_ == QpState::kReadyToSend && HasDeferred()) {
    FailSlot(head_, WcStatus::kRetryExceeded);
    return;
  }
  EnterError();
}

void SoftQueuePair::EnterError() {
  if (state_ == QpState::kError || state_ == QpState::kReset) return;
  Settle();  // what counts, counts
  if (state_ == QpState::kError) return;
  state_ = QpState::kError;
  receives_.CloseMailbox();
  if (link_ != nullptr) link_->Close();
  FlushSlots();
  FlushReceives();
}

void SoftQueuePair::Reset() {
  if (state_ == QpState::kReset) return;
  EnterError();
  Settle();  // nothing of it may stay on a list, whatever brought it into error
  receives_.CloseMailbox();
  FlushReceives();
  state_ = QpState::kReset;
}

}  // namespace ring::rdma::soft
