#include "rdma/faulty/faulty_queue_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ring::rdma {
namespace {

// Up to here a WRITE is a word, or a line of them, that no CRC covers.
constexpr std::uint64_t kFlipSizeMin = 65;
// fabric.h: such a word is seen whole.
constexpr std::uint64_t kWordSize = 8;

std::uint64_t LengthOf(const WorkRequest& request) {
  std::uint64_t length = 0;
  for (const Sge& sge : request.sges) length += sge.length;
  return length;
}

bool IsWrite(Opcode opcode) { return opcode == Opcode::kWrite || opcode == Opcode::kWriteWithImm; }

// Moves bytes to or from peers, so that a network can fail it.
bool Travels(Opcode opcode) { return opcode != Opcode::kWait && opcode != Opcode::kCalc; }

bool IsReceive(Opcode opcode) { return opcode == Opcode::kRecv || opcode == Opcode::kRecvWithImm; }

// A request to which no device ever gave a key: the peer refuses it.
WorkRequest RefusedWrite(const WorkRequest& in_place_of) {
  static constexpr std::byte kByte{0};
  static const Sge kSge{const_cast<std::byte*>(&kByte), 1, 0};
  WorkRequest request;
  request.wr_id = in_place_of.wr_id;
  request.opcode = Opcode::kWrite;
  request.signaled = true;
  request.inline_data = true;
  request.more = in_place_of.more;
  request.sges = absl::MakeConstSpan(&kSge, 1);
  return request;
}

}  // namespace

std::size_t FaultyCompletionQueue::TakeDue(absl::Span<WorkCompletion> completions) {
  if (held_.empty()) return 0;
  const std::uint64_t now_ns = plan_->NowNs();
  std::size_t count = 0;
  while (count < completions.size() && !held_.empty() &&
         (held_.front().due_ns <= now_ns || held_.front().clears != plan_->clears())) {
    completions[count] = held_.front().completion;
    --static_cast<FaultyQueuePair*>(completions[count].qp)->held;
    plan_->Hold(-1);
    held_.pop_front();
    ++count;
  }
  return count;
}

std::size_t FaultyCompletionQueue::Poll(absl::Span<WorkCompletion> completions) {
  std::size_t count = TakeDue(completions);
  const absl::Span<WorkCompletion> found = completions.subspan(count);
  const std::size_t found_count = below_->Poll(found);
  for (WorkCompletion& completion : found.first(found_count)) {
    auto* const qp = static_cast<FaultyQueuePair*>(completion.qp->context());
    qp->Tell(&completion);
    const bool late = plan_->armed() && plan_->Takes(DeviceFaultKind::kLate);
    if (!late && qp->held == 0) {
      completions[count++] = completion;
      continue;
    }
    const std::uint64_t delay_us = late ? plan_->fault(DeviceFaultKind::kLate).delay_us : 0;
    held_.push_back({plan_->NowNs() + delay_us * 1000, plan_->clears(), completion});
    ++qp->held;
    plan_->Hold(1);
  }
  return count;
}

void FaultyCompletionQueue::Drop(const FaultyQueuePair* qp) {
  const std::size_t dropped =
      std::erase_if(held_, [qp](const Held& held) { return held.completion.qp == qp; });
  plan_->Hold(-static_cast<int>(dropped));
}

struct FaultyQueuePair::Changed {
  std::vector<WorkRequest> requests;
  std::deque<std::vector<Sge>> sges;      // of those that are not the caller's
  std::vector<DeviceFaultKind> happened;  // given back if the device takes none of it
  std::optional<Doomed> doomed;
  std::vector<Flipped> flipped;
  std::uint64_t signalled = 0;
};

FaultyQueuePair::FaultyQueuePair(FaultPlan* plan, Device* device, std::unique_ptr<QueuePair> below,
                                 FaultyCompletionQueue* send_cq, FaultyCompletionQueue* recv_cq,
                                 std::string address)
    : plan_(plan),
      device_(device),
      below_(std::move(below)),
      send_cq_(send_cq),
      recv_cq_(recv_cq),
      address_(std::move(address)) {
  below_->set_context(this);
}

FaultyQueuePair::~FaultyQueuePair() {
  below_.reset();  // before the bytes that it may read
  send_cq_->Drop(this);
  if (recv_cq_ != send_cq_) recv_cq_->Drop(this);
}

absl::Status FaultyQueuePair::PostSend(const WorkRequest& chain) {
  std::uint64_t signalled = 0;
  bool waits = false;
  for (const WorkRequest* request = &chain; request != nullptr; request = request->next) {
    signalled += request->signaled ? 1 : 0;
    waits |= request->opcode == Opcode::kWait;
  }
  if (!waits && (!plan_->armed() || doomed_.has_value())) {
    const absl::Status status = below_->PostSend(chain);
    if (status.ok()) signalled_posted_ += signalled;
    return status;
  }
  Changed changed;
  for (const WorkRequest* request = &chain; request != nullptr; request = request->next)
    Change(*request, &changed);
  for (std::size_t i = 0; i + 1 < changed.requests.size(); ++i)
    changed.requests[i].next = &changed.requests[i + 1];
  changed.requests.back().next = nullptr;
  if (const absl::Status status = below_->PostSend(changed.requests.front()); !status.ok()) {
    for (const DeviceFaultKind kind : changed.happened) plan_->GiveBack(kind);
    return status;
  }
  signalled_posted_ += changed.signalled;
  if (changed.doomed.has_value()) doomed_ = changed.doomed;
  for (Flipped& flipped : changed.flipped) flipped_.push_back(std::move(flipped));
  return absl::OkStatus();
}

void FaultyQueuePair::Change(const WorkRequest& request, Changed* to) {
  const bool sound = Travels(request.opcode) && !doomed_.has_value() && !to->doomed.has_value() &&
                     state() == QpState::kReadyToSend;
  if (sound && plan_->Stops(address_)) return Doom(request, WcStatus::kRetryExceeded, to);
  const auto takes = [this, sound, to](DeviceFaultKind kind, bool fits) {
    if (!sound || !fits || !plan_->Takes(kind)) return false;
    to->happened.push_back(kind);
    return true;
  };
  const bool write = IsWrite(request.opcode);
  const std::uint64_t length = LengthOf(request);
  if (takes(DeviceFaultKind::kFail, true))
    return Doom(request, plan_->fault(DeviceFaultKind::kFail).status, to);
  if (takes(DeviceFaultKind::kTear, write && length > kWordSize)) return Tear(request, to);
  WorkRequest copy = request;
  if (request.opcode == Opcode::kWait)
    copy.wait_cq = static_cast<FaultyCompletionQueue*>(request.wait_cq)->below();
  if (takes(DeviceFaultKind::kFlip, write && length >= kFlipSizeMin) && !Flip(&copy, to)) {
    plan_->GiveBack(DeviceFaultKind::kFlip);
    to->happened.pop_back();
  }
  to->signalled += copy.signaled ? 1 : 0;
  to->requests.push_back(copy);
}

bool FaultyQueuePair::Flip(WorkRequest* request, Changed* to) {
  const std::uint64_t length = LengthOf(*request);
  Flipped flipped;
  flipped.bytes = std::make_unique<std::byte[]>(length);
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region =
      device_->Register(flipped.bytes.get(), length, kLocalOnly);
  if (!region.ok()) return false;
  flipped.region = *std::move(region);
  std::byte* at = flipped.bytes.get();
  for (const Sge& sge : request->sges) {
    std::memcpy(at, sge.address, sge.length);
    at += sge.length;
  }
  const std::uint64_t bit = plan_->Below(length * 8);
  flipped.bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  to->sges.push_back(
      {{flipped.bytes.get(), static_cast<std::uint32_t>(length), flipped.region->lkey()}});
  request->sges = to->sges.back();
  request->inline_data = false;
  // The first signalled one from here on.
  flipped.done_at = signalled_posted_ + to->signalled + 1;
  to->flipped.push_back(std::move(flipped));
  return true;
}

void FaultyQueuePair::Tear(const WorkRequest& request, Changed* to) {
  std::uint64_t left = kWordSize * (1 + plan_->Below((LengthOf(request) - 1) / kWordSize));
  std::vector<Sge> part;
  for (const Sge& sge : request.sges) {
    if (left == 0) break;
    part.push_back(sge);
    part.back().length = static_cast<std::uint32_t>(std::min<std::uint64_t>(sge.length, left));
    left -= part.back().length;
  }
  to->sges.push_back(std::move(part));
  WorkRequest copy = request;
  copy.opcode = Opcode::kWrite;
  copy.has_imm = false;
  copy.signaled = false;
  copy.sges = to->sges.back();
  to->requests.push_back(copy);
  Doom(request, plan_->fault(DeviceFaultKind::kTear).status, to);
}

void FaultyQueuePair::Doom(const WorkRequest& request, WcStatus status, Changed* to) {
  to->doomed = Doomed{request.wr_id, request.opcode, status};
  to->requests.push_back(RefusedWrite(request));
}

void FaultyQueuePair::Tell(WorkCompletion* completion) {
  completion->qp = this;
  if (IsReceive(completion->opcode)) return;
  if (completion->status == WcStatus::kSuccess) {
    ++signalled_done_;
    while (!flipped_.empty() && flipped_.front().done_at <= signalled_done_) flipped_.pop_front();
    return;
  }
  const bool is_doomed = doomed_.has_value() && completion->wr_id == doomed_->wr_id &&
                         completion->status == WcStatus::kRemoteAccess;
  if (!is_doomed) return;
  completion->status = doomed_->status;
  completion->opcode = doomed_->opcode;
}

}  // namespace ring::rdma
