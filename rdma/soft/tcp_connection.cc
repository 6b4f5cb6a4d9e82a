#include "rdma/soft/tcp_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/send_slot.h"
#include "ring/base/clock.h"

namespace ring::rdma::soft {
namespace {

class TcpRequest final : public PendingRequest {
 public:
  explicit TcpRequest(std::shared_ptr<TcpConnection> connection)
      : connection_(std::move(connection)) {}
  ~TcpRequest() override { Reject(""); }
  bool mapped() const override { return false; }
  absl::Status Accept(SoftQueuePair* qp, absl::string_view private_data) override {
    return connection_->AcceptWith(qp, private_data);
  }
  void Reject(absl::string_view private_data) override {
    if (connection_->state() == TcpConnection::State::kRequested) connection_->Refuse(private_data);
  }

 private:
  std::shared_ptr<TcpConnection> connection_;
};

TcpFrameType FrameTypeOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return TcpFrameType::kSend;
    case Opcode::kWrite:
      return TcpFrameType::kWrite;
    case Opcode::kWriteWithImm:
      return TcpFrameType::kWriteWithImm;
    case Opcode::kRead:
      return TcpFrameType::kRead;
    case Opcode::kCmpAndSwp:
      return TcpFrameType::kCmpAndSwp;
    default:
      return TcpFrameType::kFetchAndAdd;
  }
}

void SetSocketOptions(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  // A peer that vanished without a word is given up after about three seconds, busy or idle: the
  // longer it takes, the later the next attempt to send again, and nobody dials while a connection
  // looks as if it were there. A process that stands still is not meant, as its kernel answers, but
  // is met once its window is full: what waits for that counts as well.
  const unsigned int user_timeout_ms = 3'000;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
  const int idle_s = 1;
  const int interval_s = 1;
  const int probes = 2;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

}  // namespace

TcpConnection::TcpConnection(SoftDevice* device, TcpDueList* due, int fd, State state)
    : device_(device), due_(due), fd_(fd), state_(state), buffer_(kHelloSize) {
  SetSocketOptions(fd);
  deadline_ns_ = device->NowNs() + device->options().hello_timeout_ms * kMillisecondNs;
}

absl::Status TcpConnection::Start() {
  want_write_ = state_ == State::kConnecting;
  BecomeDue();
  return device_->Watch(fd_, this, EPOLLIN | EPOLLRDHUP | (want_write_ ? EPOLLOUT : 0u));
}

SoftQueuePair* TcpConnection::qp() const { return device_->FindQueuePair(qp_number_); }

void TcpConnection::WatchFor(bool readable, bool writable) {
  if (readable == want_read_ && writable == want_write_) return;
  want_read_ = readable;
  want_write_ = writable;
  ApplyWatch();
}

// A linked socket is watched by edges: it is not asked again while it is quiet. Changing the watch
// tells at once what is there already.
void TcpConnection::ApplyWatch() {
  if (uring_ != nullptr) {
    want_read_ ? uring_->Start(uring_slot_) : uring_->Stop(uring_slot_);
    if (want_write_ == watched_) return;
    if (watched_) device_->Unwatch(fd_, this);
    watched_ = want_write_ && device_->Watch(fd_, this, EPOLLOUT | EPOLLET).ok();
    if (want_write_ && !watched_) shutdown(fd_, SHUT_RDWR);  // nobody would tell of room
    return;
  }
  device_->ChangeWatch(fd_, this,
                       (want_read_ ? EPOLLIN | EPOLLRDHUP : 0u) | (want_write_ ? EPOLLOUT : 0u) |
                           (state_ == State::kLinked ? EPOLLET : 0u));
}

bool TcpConnection::IsDue() const {
  return deadline_ns_ != 0 || ack_due_ || read_on_ || paused_ || state_ == State::kDead ||
         (!transmit_.empty() && !want_write_);
}

void TcpConnection::BecomeDue() {
  if (is_due_) return;
  is_due_ = true;
  due_->AddDue(this);
}

// --- handshake ---

void TcpConnection::Propose(SoftQueuePair* qp, absl::string_view private_data) {
  qp_number_ = qp->number();
  handshake_data_ = std::string(private_data);
}

void TcpConnection::SendHandshake(TcpFrameType type, absl::string_view private_data) {
  handshake_data_ = std::string(private_data.substr(0, kPrivateDataSizeMax));
  TcpFrame frame;
  frame.type = type;
  frame.payload_length = static_cast<std::uint32_t>(handshake_data_.size());
  transmit_.AddOne(frame, reinterpret_cast<const std::byte*>(handshake_data_.data()));
  Flush();
}

void TcpConnection::FinishConnect() {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return OnHangUp();
  state_ = State::kAwaitAnswer;
  SendHandshake(TcpFrameType::kHello, std::string(handshake_data_));
}

void TcpConnection::Refuse(absl::string_view reason) {
  if (state_ == State::kDead) return;
  SendHandshake(TcpFrameType::kReject, reason);
  Drain();
}

absl::Status TcpConnection::AcceptWith(SoftQueuePair* own, absl::string_view private_data) {
  if (state_ != State::kRequested)
    return absl::UnavailableError("the peer closed its connection request");
  qp_number_ = own->number();
  BecomeLinked();
  SendHandshake(TcpFrameType::kAccept, private_data);
  device_->Establish(own, std::make_unique<TcpLink>(shared_from_this()), "");
  return absl::OkStatus();
}

void TcpConnection::BecomeLinked() {
  state_ = State::kLinked;
  deadline_ns_ = 0;
  std::vector<std::byte> larger(
      device_->uring() != nullptr
          ? kPartsSize
          : std::max<std::size_t>(device_->options().tcp_receive_buffer, kPartsSize));
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(buffer_begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(buffer_end_), larger.begin());
  buffer_end_ -= buffer_begin_;
  buffer_begin_ = 0;
  buffer_ = std::move(larger);
  read_on_ = buffer_end_ != 0;
  if (read_on_) BecomeDue();
  counted_ = true;
  device_->AddPolledConnection(1);
  want_read_ = true;
  device_->uring() != nullptr ? UseUring() : ApplyWatch();
}

void TcpConnection::UseUring() {
  uring_ = device_->uring();
  device_->hot_sockets().Forget(this);
  device_->Unwatch(fd_, this);
  watched_ = false;
  uring_slot_ = uring_->Add(fd_, this);
  ApplyWatch();
  if (!paused_) ShrinkBuffer();
}

void TcpConnection::OnHandshakeFrame(const TcpFrame& frame, std::string private_data) {
  if (state_ == State::kAwaitHello) {
    if (frame.type != TcpFrameType::kHello) return Refuse("refused: expected a hello");
    state_ = State::kRequested;
    deadline_ns_ = 0;
    // The peer sends nothing before our answer: only its end of file is of interest.
    device_->AddRequest(std::make_unique<TcpRequest>(shared_from_this()), std::move(private_data));
    return;
  }
  SoftQueuePair* own = qp();
  const bool accepted =
      frame.type == TcpFrameType::kAccept && own != nullptr && own->state() == QpState::kInit;
  if (!accepted) {
    const bool rejected = frame.type == TcpFrameType::kReject;
    Die();
    if (own != nullptr && own->state() == QpState::kInit) {
      device_->FailConnect(own, rejected ? std::move(private_data) : std::string());
    }
    return;
  }
  BecomeLinked();
  device_->Establish(own, std::make_unique<TcpLink>(shared_from_this()), std::move(private_data));
}

// --- life ---

void TcpConnection::OnReady(std::uint32_t epoll_events) {
  if (state_ == State::kConnecting) {
    if ((epoll_events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) FinishConnect();
    return;
  }
  if ((epoll_events & EPOLLOUT) != 0) Flush();
  if (uring_ != nullptr) return;  // it tells of all the rest
  if ((epoll_events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 || state_ == State::kDead)
    return;
  if (state_ == State::kLinked) {
    end_near_ |= (epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    device_->hot_sockets().Found(this);
    ReadFrames();
  } else {
    ReadHandshake();
  }
  if (IsDue()) BecomeDue();
}

bool TcpConnection::ReceiveNow() {
  if (state_ != State::kLinked || paused_ || crowded_) return false;
  if (came_turn_ != device_->turn()) ReadFrames();
  if (IsDue()) BecomeDue();
  return came_turn_ == device_->turn();
}

bool TcpConnection::Progress() {
  is_due_ = false;
  if (state_ == State::kDead) return false;
  bool worked = false;
  if (state_ == State::kLinked && paused_) {
    SoftQueuePair* own = qp();
    if (own != nullptr && (!own->receives().Empty() || device_->NowNs() > deadline_ns_)) {
      worked = true;
      ReadFrames();
    }
  } else if (deadline_ns_ != 0 && device_->NowNs() > deadline_ns_) {
    worked = true;
    if (state_ == State::kAwaitHello) {
      Refuse("refused: no hello in time");
    } else {
      OnHangUp();
    }
  }
  if (state_ == State::kLinked && read_on_) {
    worked = true;
    ReadFrames();
  }
  QueueAck();
  if (state_ != State::kDead && !transmit_.empty() && !want_write_) {
    worked = true;
    Flush();
  }
  if (IsDue()) BecomeDue();
  return worked;
}

// What was executed in one turn is acknowledged together with the next post, or in the next turn:
// an answer and the acknowledgement of its request share a segment.
void TcpConnection::QueueAck() {
  if (state_ != State::kLinked || !ack_due_) return;
  ack_due_ = false;
  TcpFrame ack;
  ack.type = TcpFrameType::kAck;
  ack.sequence = ack_sequence_;
  transmit_.AddOne(ack, nullptr);
}

void TcpConnection::Kick() {
  if (transmit_.empty() || want_write_) return;
  // One send a turn.
  if (sent_turn_ == device_->turn()) return BecomeDue();
  QueueAck();
  if (uring_ == nullptr) device_->hot_sockets().Expect(this, device_->turn());
  Flush();
}

void TcpConnection::Flush() {
  DeviceCounters& calls = device_->mutable_counters();
  const std::uint64_t sends_before = calls.sends;
  const TcpTransmit::Result result = transmit_.Flush(fd_, *device_->mapping(), &calls.sends);
  if (calls.sends != sends_before && sent_turn_ != device_->turn()) {
    sent_turn_ = device_->turn();
    ++calls.batches_sent;
  }
  if (result == TcpTransmit::Result::kBroken) {
    // Found out while posting: the queue pair learns of it from Progress, like of any other
    // hang-up.
    transmit_.Clear();
    shutdown(fd_, SHUT_RDWR);
  } else if (state_ != State::kDead) {
    WatchFor(want_read_, result == TcpTransmit::Result::kSocketFull);
  }
  if (!crowded_ || transmit_.copied() > kAnswersMax / 2) return;
  crowded_ = false;
  read_on_ = true;
  BecomeDue();
}

// Our side is done with the connection.
void TcpConnection::LetGo() {
  if (state_ != State::kLinked) return;
  if (hung_up_ || transmit_.MidRequest()) return Die();
  transmit_.DropRequests();
  QueueAck();
  Flush();
  Drain();
}

// Sends no more, and reads until the peer closes too: closing with unread bytes would reset the
// connection, and the peer would lose the reason that we just sent.
void TcpConnection::Drain() {
  if (state_ == State::kDead) return;
  if (counted_) device_->AddPolledConnection(-1);
  counted_ = false;
  device_->hot_sockets().Forget(this);
  state_ = State::kDraining;
  paused_ = crowded_ = false;
  read_on_ = false;
  deadline_ns_ = device_->NowNs() + 1000 * kMillisecondNs;
  BecomeDue();
  want_read_ = true;
  ApplyWatch();
  shutdown(fd_, SHUT_WR);
}

void TcpConnection::OnHangUp() {
  hung_up_ = true;
  SoftQueuePair* own = qp();
  const State before = state_;
  // Keeps this alive: the queue pair's link, or the request, may hold the last reference.
  const std::shared_ptr<TcpConnection> self = shared_from_this();
  Die();
  if (own == nullptr) return;
  if (before == State::kLinked || before == State::kDraining) {
    device_->CheckPeer(own);
  } else if (own->state() == QpState::kInit) {
    device_->FailConnect(own, "");
  }
}

void TcpConnection::Die() {
  if (state_ == State::kDead) return;
  state_ = State::kDead;
  BecomeDue();  // to be forgotten
  if (counted_) device_->AddPolledConnection(-1);
  counted_ = false;
  device_->hot_sockets().Forget(this);
  transmit_.Clear();
  device_->Unwatch(fd_, this);
  if (uring_ != nullptr) {
    uring_->Remove(uring_slot_);
    shutdown(fd_, SHUT_RDWR);  // the peer's end does not wait for the armed receive's
  }
  close(fd_);
}

// --- requests of our queue pair ---

bool TcpConnection::FinishesNow(const WorkRequest& wr) const {
  return wr.unacknowledged && wr.opcode == Opcode::kWrite && GatherLength(wr) <= kCopyMax &&
         transmit_.bytes() <= kBacklogMax;
}

IssueResult TcpConnection::Issue(const WorkRequest& wr, std::uint64_t sequence) {
  if (state_ != State::kLinked) return {IssueState::kFailed, WcStatus::kRetryExceeded};
  if (transmit_.bytes() > device_->options().tcp_transmit_limit)
    return {IssueState::kBlocked, WcStatus::kSuccess};
  TcpFrame frame;
  frame.type = FrameTypeOf(wr.opcode);
  frame.has_imm = wr.opcode == Opcode::kWriteWithImm || wr.has_imm;
  frame.imm = wr.imm;
  frame.rkey = wr.rkey;
  frame.remote_address = wr.remote_address;
  frame.sequence = sequence;
  frame.operand = wr.compare_or_add;
  frame.swap = wr.swap;
  const std::uint32_t length = GatherLength(wr);
  if (length > kMessageSizeMax) return {IssueState::kFailed, WcStatus::kLocalLength};
  const bool carries = wr.opcode == Opcode::kSend || wr.opcode == Opcode::kWrite ||
                       wr.opcode == Opcode::kWriteWithImm;
  if (wr.opcode == Opcode::kRead) frame.operand = length;
  frame.payload_length = carries ? length : 0;
  if (FinishesNow(wr)) {
    frame.unacknowledged = true;
    transmit_.AddCopy(frame, wr.sges);
    return {IssueState::kDone, WcStatus::kSuccess};
  }
  BecomeDue();
  transmit_.Add(frame, carries ? wr.sges : absl::Span<const Sge>());
  return {IssueState::kPending, WcStatus::kSuccess};
}

}  // namespace ring::rdma::soft
