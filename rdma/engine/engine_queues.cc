#include "rdma/engine/engine_queues.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rdma/soft/device.h"
#include "ring/base/check.h"

namespace ring::rdma::engine {

EngineCompletionQueue::EngineCompletionQueue(Nic* nic, std::unique_ptr<CompletionQueue> below,
                                             std::size_t depth)
    : nic_(nic), below_(std::move(below)), ring_(depth) {
  nic_->Add(this);
}

EngineCompletionQueue::~EngineCompletionQueue() {
  nic_->Call([this] {
    nic_->Remove(this);
    below_.reset();
  });
}

std::size_t EngineCompletionQueue::Poll(absl::Span<WorkCompletion> completions) {
  const std::uint64_t from = polled();
  const std::uint64_t there = published_.load(std::memory_order_acquire) - from;
  const std::size_t count = std::min<std::uint64_t>(completions.size(), there);
  for (std::size_t i = 0; i < count; ++i) completions[i] = ring_[(from + i) % ring_.size()];
  if (count > 0) polled_.store(from + count, std::memory_order_release);
  return count;
}

void EngineCompletionQueue::Discard(std::uint64_t polled) {
  std::array<WorkCompletion, 16> completions;
  while (below()->polled() < polled) {
    const std::size_t count =
        std::min<std::uint64_t>(completions.size(), polled - below()->polled());
    RING_CHECK(below()->Poll(absl::MakeSpan(completions).subspan(0, count)) == count);
  }
}

bool EngineCompletionQueue::Publish() {
  const std::uint64_t first = below()->polled();
  const std::uint64_t end = first + below()->used();
  const std::uint64_t from = published_.load(std::memory_order_relaxed);
  room.Tell(below()->occupied());
  if (from == end) return false;
  for (std::uint64_t i = from; i < end; ++i) {
    WorkCompletion completion = below()->Peek(i - first);
    completion.qp = static_cast<EngineQueuePair*>(completion.qp->context());
    ring_[i % ring_.size()] = completion;
  }
  // Who armed the queue looks at it once more before it sleeps: one of the two sees the other.
  published_.store(end, std::memory_order_seq_cst);
  if (armed_.load(std::memory_order_seq_cst) != 0 && armed_.exchange(0) != 0) nic_->WakeHost();
  return true;
}

void EngineCompletionQueue::Rebuild() {
  noted_ = below()->polled();
  polled_.store(noted_, std::memory_order_release);
  published_.store(noted_, std::memory_order_release);
  Publish();
}

EngineQueuePair::EngineQueuePair(Nic* nic, std::unique_ptr<QueuePair> below,
                                 const QueuePairOptions& options)
    : nic_(nic),
      below_(std::move(below)),
      send_cq_(static_cast<EngineCompletionQueue*>(options.send_cq)),
      recv_cq_(static_cast<EngineCompletionQueue*>(options.recv_cq)),
      number_(below_->number()),
      send_depth_(options.send_depth),
      recv_depth_(options.recv_depth) {
  below_->set_context(this);
  nic_->Add(this);
  Mirror();
}

EngineQueuePair::~EngineQueuePair() {
  nic_->Call([this] {
    nic_->Remove(this);
    for (EngineCompletionQueue* cq : {send_cq_, recv_cq_}) cq->Discard(cq->polled());
    below_.reset();
    for (EngineCompletionQueue* cq : {send_cq_, recv_cq_}) cq->Rebuild();
  });
}

// The queues have a place for each request, and for each receive.
bool EngineQueuePair::HasRoom(std::size_t count) const {
  return send_room_.Has(count, send_depth_) && send_cq_->room.Has(count, send_cq_->depth());
}

absl::Status EngineQueuePair::PostSend(const WorkRequest& chain) {
  soft::ChainSize size;
  const QpState now = state();
  const bool whole = soft::CheckChain(chain, send_depth_, &size).ok();
  const std::uint32_t count = size.count;
  const bool certain = whole && (now == QpState::kReadyToSend || now == QpState::kError) &&
                       HasRoom(count) && count <= nic_->doorbells().size() / 2;
  if (!certain) return PostSendInCall(chain);
  nic_->AwaitRoom(count);
  for (const WorkRequest* request = &chain; request != nullptr; request = request->next) {
    Doorbell& doorbell = nic_->doorbells().Push();
    doorbell.request.Store(*request);
    doorbell.qp = this;
    doorbell.receive = false;
    doorbell.last = request->next == nullptr;
    doorbell.wait_cq = nullptr;
    if (request->opcode == Opcode::kWait) {
      doorbell.wait_cq = static_cast<EngineCompletionQueue*>(request->wait_cq);
      doorbell.wait_polled = doorbell.wait_cq->polled();
      doorbell.request.wr.wait_cq = doorbell.wait_cq->below();
    }
  }
  send_room_.posted += count;
  send_cq_->room.posted += count;
  nic_->Ring();
  return absl::OkStatus();
}

absl::Status EngineQueuePair::PostSendInCall(const WorkRequest& chain) {
  // As many as may be posted, and one more: longer chains, and cycles, are refused below.
  std::vector<WorkRequest> requests;
  for (const WorkRequest* request = &chain; request != nullptr && requests.size() <= send_depth_;
       request = request->next)
    requests.push_back(*request);
  absl::Status status;
  nic_->Call([&] {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
      if (requests[i].opcode != Opcode::kWait || requests[i].wait_cq == nullptr) continue;
      auto* const cq = static_cast<EngineCompletionQueue*>(requests[i].wait_cq);
      cq->Discard(cq->polled());
      requests[i].wait_cq = cq->below();
    }
    for (EngineCompletionQueue* cq : {send_cq_, recv_cq_}) cq->Discard(cq->polled());
    status = below_->PostSend(requests.front());
    if (status.ok()) AddSeen(requests.size());
  });
  if (status.ok()) {
    send_room_.posted += requests.size();
    send_cq_->room.posted += requests.size();
  }
  return status;
}

absl::Status EngineQueuePair::PostRecv(std::uint64_t wr_id, absl::Span<const Sge> sges) {
  const bool certain = state() != QpState::kReset && sges.size() <= soft::kRecvSgeMax &&
                       below()->UnusableForReceive(sges) == nullptr &&
                       recv_room_.Has(1, recv_depth_) && recv_cq_->room.Has(1, recv_cq_->depth());
  if (!certain) return PostRecvInCall(wr_id, sges);
  nic_->AwaitRoom(1);
  Doorbell& doorbell = nic_->doorbells().Push();
  WorkRequest request;
  request.wr_id = wr_id;
  request.opcode = Opcode::kRecv;
  request.sges = sges;
  doorbell.request.Store(request);
  doorbell.qp = this;
  doorbell.receive = doorbell.last = true;
  doorbell.wait_cq = nullptr;
  ++recv_room_.posted;
  ++recv_cq_->room.posted;
  nic_->Ring();
  return absl::OkStatus();
}

absl::Status EngineQueuePair::PostRecvInCall(std::uint64_t wr_id, absl::Span<const Sge> sges) {
  absl::Status status;
  nic_->Call([&] {
    recv_cq_->Discard(recv_cq_->polled());
    status = below_->PostRecv(wr_id, sges);
    if (!status.ok()) return;
    ++recv_room_.seen;
    ++recv_cq_->room.seen;
  });
  if (status.ok()) {
    ++recv_room_.posted;
    ++recv_cq_->room.posted;
  }
  return status;
}

void EngineQueuePair::AddSeen(std::size_t count) {
  send_room_.seen += count;
  send_cq_->room.seen += count;
}

void EngineQueuePair::PostSendBelow(const WorkRequest& chain, std::size_t count) {
  AddSeen(count);
  const absl::Status status = below_->PostSend(chain);
  RING_CHECK(status.ok()) << "qp=" << number_ << ": " << status;
}

void EngineQueuePair::PostRecvBelow(std::uint64_t wr_id, absl::Span<const Sge> sges) {
  ++recv_room_.seen;
  ++recv_cq_->room.seen;
  const absl::Status status = below_->PostRecv(wr_id, sges);
  RING_CHECK(status.ok()) << "qp=" << number_ << ": " << status;
}

void EngineQueuePair::Mirror() {
  send_room_.Tell(below()->outstanding());
  recv_room_.Tell(below()->receives().count());
  state_.store(below()->state(), std::memory_order_release);
}

void EngineQueuePair::Reset() {
  nic_->Call([this] { below_->Reset(); });
}

// What was posted before is executed: Call sees to it.
std::uint32_t EngineQueuePair::PeerSleep() const {
  std::uint32_t sleep = 0;
  nic_->Call([&] { sleep = below_->PeerSleep(); });
  return sleep;
}

absl::string_view EngineQueuePair::transport() const {
  absl::string_view transport;
  nic_->Call([&] { transport = below_->transport(); });
  return transport;
}

}  // namespace ring::rdma::engine
