#include "rdma/soft/queue_pair.h"

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "ring/base/check.h"
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
}

absl::Status SoftQueuePair::PostSend(const WorkRequest& chain) {
  std::uint32_t count = 0;
  RING_RETURN_IF_ERROR(CheckChain(chain, options_.send_depth, &count));
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
    for (const WorkRequest* wr = &chain; wr != nullptr; wr = wr->next)
      Complete(*wr, WcStatus::kFlushed);
    return absl::OkStatus();
  }
  const WorkRequest* rest = mapped_ && head_ == tail_ ? ExecuteNow(chain) : &chain;
  if (rest != nullptr) {
    bool more = false;
    for (; rest != nullptr; rest = rest->next) {
      more = rest->more;
      Enqueue(*rest);
    }
    Run();
    if (link_ != nullptr && state_ == QpState::kReadyToSend && !more) link_->Kick();
  }
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
    if (wr->opcode == Opcode::kWait) {
      // What the WAIT watches may be in this very chain.
      if (!FinishBatch(batch, wr, batch_sequence)) return nullptr;
      batch = wr;
      batch_sequence = sequence;
    }
    const IssueResult result = IssueOne(*wr, sequence, nullptr);
    if (result.state == IssueState::kDone) continue;
    if (result.state == IssueState::kBlocked) break;
    FailChain(batch, batch_sequence, sequence, result.status);
    return nullptr;
  }
  if (!FinishBatch(batch, wr, batch_sequence)) return nullptr;
  head_ = issue_ = tail_ = sequence;
  return wr;
}

// Commits [first, end) and completes it; on failure the chain is failed and flushed from there on.
bool SoftQueuePair::FinishBatch(const WorkRequest* first, const WorkRequest* end,
                                std::uint64_t first_sequence) {
  const CommitResult result = link_->Commit();
  if (result.status != WcStatus::kSuccess) {
    FailChain(first, first_sequence, result.failed_sequence, result.status);
    return false;
  }
  for (const WorkRequest* wr = first; wr != end; wr = wr->next) {
    if (wr->signaled) Complete(*wr, WcStatus::kSuccess);
  }
  return true;
}

void SoftQueuePair::FailChain(const WorkRequest* first, std::uint64_t first_sequence,
                              std::uint64_t failed_sequence, WcStatus status) {
  // An earlier request of the batch may not count either; it is then the first failure.
  if (const CommitResult result = link_->Commit(); result.status != WcStatus::kSuccess) {
    failed_sequence = result.failed_sequence;
    status = result.status;
  }
  std::uint64_t sequence = first_sequence;
  for (const WorkRequest* wr = first; wr != nullptr; wr = wr->next, ++sequence) {
    if (sequence < failed_sequence) {
      if (wr->signaled) Complete(*wr, WcStatus::kSuccess);
    } else {
      Complete(*wr, sequence == failed_sequence ? status : WcStatus::kFlushed);
    }
  }
  EnterError();
}

IssueResult SoftQueuePair::IssueOne(const WorkRequest& wr, std::uint64_t sequence,
                                    const WaitPlan* plan) {
  if (wr.opcode == Opcode::kWait) {
    auto* cq = static_cast<SoftCompletionQueue*>(wr.wait_cq);
    const WaitPlan wait = plan != nullptr ? *plan : PlanWait(wr);
    if (cq->failures() > wait.failures) return {IssueState::kFailed, WcStatus::kFlushed};
    if (cq->total() < wait.target) return {IssueState::kBlocked, WcStatus::kSuccess};
    if (plan == nullptr) WaitCursor(cq) = wait.target;
    return {IssueState::kDone, WcStatus::kSuccess};
  }
  if (wr.opcode == Opcode::kCalc) return RunCalc(*wr.calc);
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
  completion.wr_id = wr.wr_id;
  completion.qp = this;
  completion.status = status;
  completion.opcode = wr.opcode;
  if (wr.opcode == Opcode::kRead) completion.byte_len = GatherLength(wr);
  send_cq_->Push(completion);
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
  state_ = QpState::kError;
  receives_.CloseMailbox();
  if (link_ != nullptr) link_->Close();
  FlushSlots();
  FlushReceives();
}

void SoftQueuePair::Reset() {
  if (state_ == QpState::kReset) return;
  EnterError();
  receives_.CloseMailbox();
  FlushReceives();
  state_ = QpState::kReset;
}

}  // namespace ring::rdma::soft
