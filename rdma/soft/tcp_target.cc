// The part of TcpConnection that executes frames: the peer's requests on our memory, and its
// answers to ours.
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/send_slot.h"
#include "rdma/soft/shared_copy.h"
#include "rdma/soft/tcp_connection.h"

namespace ring::rdma::soft {

bool TcpConnection::OnFrame(const TcpFrame& frame) {
  switch (frame.type) {
    case TcpFrameType::kHello:
    case TcpFrameType::kAccept:
    case TcpFrameType::kReject:
      return Violation();
    case TcpFrameType::kReadResponse:
      return BeginReadResponse(frame);
    case TcpFrameType::kAtomicResponse:
      return FinishAtomic(frame);
    case TcpFrameType::kAck:
    case TcpFrameType::kNak:
      return OnAnswer(frame);
    default:
      return BeginRequest(frame);
  }
}

bool TcpConnection::BeginRequest(const TcpFrame& frame) {
  if (frame.sequence + 1 <= last_request_) return Violation();
  SoftQueuePair* own = qp();
  if (own == nullptr || own->state() != QpState::kReadyToSend) return Violation();
  // Everything behind a request that has to wait waits too; the header stays in the buffer.
  crowded_ = transmit_.copied() > kAnswersMax;
  if (crowded_) {
    WatchFor(false, want_write_);
    return false;
  }
  const bool consumes =
      frame.type == TcpFrameType::kSend || frame.type == TcpFrameType::kWriteWithImm;
  if (consumes && own->receives().Empty()) {
    const std::uint64_t now = device_->NowNs();
    if (!paused_) {
      paused_ = true;
      deadline_ns_ = now + std::uint64_t{device_->options().rnr_timeout_ms} * 1'000'000;
    }
    WatchFor(false, want_write_);
    return now > deadline_ns_ ? Nak(frame, WcStatus::kRnrRetryExceeded) : false;
  }
  if (paused_) {
    paused_ = false;
    deadline_ns_ = 0;
  }
  WatchFor(true, want_write_);
  last_request_ = frame.sequence + 1;
  switch (frame.type) {
    case TcpFrameType::kSend:
      return BeginReceive(frame);
    case TcpFrameType::kRead:
      return ServeRead(frame);
    case TcpFrameType::kCmpAndSwp:
    case TcpFrameType::kFetchAndAdd:
      return ServeAtomic(frame);
    default:
      return BeginWrite(frame);
  }
}

bool TcpConnection::BeginWrite(const TcpFrame& frame) {
  std::byte* target = device_->regions().Serve(frame.rkey, frame.remote_address,
                                               frame.payload_length, kRemoteWrite);
  if (target == nullptr) return Nak(frame, WcStatus::kRemoteAccess);
  sink_.frame = frame;
  sink_.active = true;
  sink_.pieces[0] = {target, frame.payload_length, 0};
  sink_.piece_count = 1;
  sink_.at = 0;
  sink_.left = frame.payload_length;
  return true;
}

bool TcpConnection::BeginReceive(const TcpFrame& frame) {
  SoftQueuePair* own = qp();
  const PostedReceive& receive = own->receives().Front();
  if (frame.payload_length > receive.length) {
    Arrival arrival;
    arrival.status = WcStatus::kLocalLength;
    own->CompleteReceive(arrival);
    return Nak(frame, WcStatus::kRemoteInvalid);
  }
  sink_.frame = frame;
  sink_.active = true;
  sink_.piece_count = receive.sge_count;
  for (std::size_t i = 0; i < receive.sge_count; ++i) sink_.pieces[i] = receive.sges[i];
  sink_.at = 0;
  sink_.left = frame.payload_length;
  return true;
}

bool TcpConnection::ServeRead(const TcpFrame& frame) {
  const std::byte* source =
      device_->regions().Serve(frame.rkey, frame.remote_address, frame.operand, kRemoteRead);
  if (source == nullptr) return Nak(frame, WcStatus::kRemoteAccess);
  TcpFrame answer;
  answer.type = TcpFrameType::kReadResponse;
  answer.sequence = frame.sequence;
  answer.payload_length = static_cast<std::uint32_t>(frame.operand);
  transmit_.AddOne(answer, source, frame.rkey);
  return true;
}

bool TcpConnection::ServeAtomic(const TcpFrame& frame) {
  if (frame.remote_address % sizeof(std::uint64_t) != 0)
    return Nak(frame, WcStatus::kRemoteInvalid);
  std::byte* target = device_->regions().Serve(frame.rkey, frame.remote_address,
                                               sizeof(std::uint64_t), kRemoteAtomic);
  if (target == nullptr) return Nak(frame, WcStatus::kRemoteAccess);
  auto* word = reinterpret_cast<std::uint64_t*>(target);
  std::uint64_t old = frame.operand;
  if (frame.type == TcpFrameType::kFetchAndAdd) {
    old = __atomic_fetch_add(word, frame.operand, __ATOMIC_SEQ_CST);
  } else {
    __atomic_compare_exchange_n(word, &old, frame.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  TcpFrame answer;
  answer.type = TcpFrameType::kAtomicResponse;
  answer.sequence = frame.sequence;
  answer.operand = old;
  transmit_.AddOne(answer, nullptr);
  return true;
}

// The peer may answer only what was sent whole: our buffers are still in use before that.
bool TcpConnection::BeginReadResponse(const TcpFrame& frame) {
  SoftQueuePair* own = qp();
  if (own == nullptr || !own->IsOutstanding(frame.sequence) || !transmit_.anything_sent() ||
      frame.sequence > transmit_.sent_sequence()) {
    return Violation();
  }
  const WorkRequest& wr = own->Outstanding(frame.sequence);
  if (wr.opcode != Opcode::kRead || frame.payload_length != GatherLength(wr)) return Violation();
  sink_.frame = frame;
  sink_.active = true;
  sink_.piece_count = wr.sges.size();
  for (std::size_t i = 0; i < wr.sges.size(); ++i) sink_.pieces[i] = wr.sges[i];
  sink_.at = 0;
  sink_.left = frame.payload_length;
  return true;
}

bool TcpConnection::FinishAtomic(const TcpFrame& frame) {
  SoftQueuePair* own = qp();
  if (own == nullptr || !own->IsOutstanding(frame.sequence) || !transmit_.anything_sent() ||
      frame.sequence > transmit_.sent_sequence()) {
    return Violation();
  }
  const WorkRequest& wr = own->Outstanding(frame.sequence);
  if (wr.opcode != Opcode::kCmpAndSwp && wr.opcode != Opcode::kFetchAndAdd) return Violation();
  if (!wr.sges.empty()) {
    CopyToShared(wr.sges[0].address, reinterpret_cast<const std::byte*>(&frame.operand),
                 sizeof(frame.operand));
  }
  own->OnRemoteDone(frame.sequence);
  return state_ == State::kLinked;
}

bool TcpConnection::OnAnswer(const TcpFrame& frame) {
  SoftQueuePair* own = qp();
  if (own == nullptr) return Violation();
  const bool sent = transmit_.anything_sent() && frame.sequence <= transmit_.sent_sequence();
  if (!sent) return Violation();
  if (frame.type == TcpFrameType::kAck) {
    // A response that came meanwhile has already told more.
    if (own->IsOutstanding(frame.sequence)) own->OnRemoteDone(frame.sequence);
    return state_ == State::kLinked;
  }
  own->OnRemoteFailed(frame.sequence, static_cast<WcStatus>(frame.status));
  return state_ == State::kLinked;
}

void TcpConnection::Executed(const TcpFrame& frame) {
  if (frame.unacknowledged) return;
  ack_due_ = true;
  ack_sequence_ = frame.sequence;
}

// Tells the peer which request failed; the queue pair goes to kError on both sides.
bool TcpConnection::Nak(const TcpFrame& frame, WcStatus status) {
  TcpFrame nak;
  nak.type = TcpFrameType::kNak;
  nak.sequence = frame.sequence;
  nak.status = static_cast<std::uint8_t>(status);
  transmit_.AddOne(nak, nullptr);
  SoftQueuePair* own = qp();
  hung_up_ = false;
  const std::shared_ptr<TcpConnection> self = shared_from_this();
  if (own != nullptr) {
    own->EnterError();  // closes the link: what waits is sent, then the socket is drained
    hung_up_ = true;
    device_->CheckPeer(own);
  } else {
    LetGo();
  }
  return false;
}

bool TcpConnection::Violation() {
  OnHangUp();
  return false;
}

}  // namespace ring::rdma::soft
