#include "rdma/soft/shm_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/soft/mapped_link.h"
#include "rdma/soft/queue_pair.h"

namespace ring::rdma::soft {
namespace {

class ShmChannel final : public PeerChannel {
 public:
  explicit ShmChannel(std::shared_ptr<ShmConnection> connection)
      : connection_(std::move(connection)) {}
  absl::string_view transport() const override { return "shm"; }
  bool HungUp() const override { return connection_->hung_up(); }
  void Detach() override { connection_->LetGo(); }

 private:
  std::shared_ptr<ShmConnection> connection_;
};

class ShmRequest final : public PendingRequest {
 public:
  explicit ShmRequest(std::shared_ptr<ShmConnection> connection)
      : connection_(std::move(connection)) {}
  ~ShmRequest() override { Reject(""); }
  bool mapped() const override { return true; }
  absl::Status Accept(SoftQueuePair* qp, absl::string_view private_data) override {
    return connection_->AcceptWith(qp, private_data);
  }
  void Reject(absl::string_view private_data) override {
    if (connection_->state() == ShmConnection::State::kRequested) connection_->Refuse(private_data);
  }

 private:
  std::shared_ptr<ShmConnection> connection_;
};

}  // namespace

void SendShmRefusal(int socket, absl::string_view reason) {
  ShmMessage message;
  message.kind = ShmMessage::Kind::kReject;
  message.private_data = std::string(reason);
  SendShmMessage(socket, message, -1, -1);
}

bool ShmConnection::SendOwn(ShmMessage::Kind kind, SoftQueuePair* qp,
                            absl::string_view private_data) {
  const Mapping& own = *device_->mapping();
  ShmMessage message;
  message.kind = kind;
  message.layout = own.layout();
  message.arena_address = own.owner_arena_address();
  message.mailbox = qp->mailbox_name();
  message.private_data = std::string(private_data);
  if (!SendShmMessage(fd_, message, own.memory_fd(), own.event_fd())) return false;
  qp_number_ = qp->number();
  own_mailbox_ = qp->mailbox_name();
  device_->mailboxes().AttachPeer({own_mailbox_.index, own_mailbox_.key});
  return true;
}

void ShmConnection::Refuse(absl::string_view reason) {
  SendShmRefusal(fd_, reason);
  Die();
}

void ShmConnection::Die() {
  if (state_ == State::kDead) return;
  state_ = State::kDead;
  device_->Unwatch(fd_, this);
  close(fd_);
  // Closed or dead at the other end, or never told our mailbox: nobody writes to it any more.
  if (own_mailbox_.key != 0)
    device_->mailboxes().DetachPeer({own_mailbox_.index, own_mailbox_.key});
  peers_->NoteDead();
}

void ShmConnection::LetGo() {
  if (state_ != State::kLinked) return;
  if (hung_up_) {
    Die();
    return;
  }
  state_ = State::kClosing;
  shutdown(fd_, SHUT_WR);
}

void ShmConnection::OnHangUp() {
  hung_up_ = true;
  const State before = state_;
  if (before == State::kLinked) {
    // Stays until our link lets go; the socket has nothing more to say.
    device_->Unwatch(fd_, this);
    if (SoftQueuePair* own = qp(); own != nullptr) device_->CheckPeer(own);
    return;
  }
  SoftQueuePair* own = qp();
  const std::shared_ptr<ShmConnection> self = shared_from_this();
  Die();
  if (own == nullptr) return;
  if (before == State::kClosing) {
    device_->CheckPeer(own);
  } else if (before == State::kAwaitAnswer && own->state() == QpState::kInit) {
    device_->FailConnect(own, "");
  }
}

// L5: an acceptor writes behind its answer, and only while our mailbox is open. Ours is closed: who
// has not answered by now never writes, and what this socket holds is free. Who has may be in the
// middle of a copy, and is waited for.
void ShmConnection::EndIfGivenUp() {
  if (const SoftQueuePair* own = qp(); own != nullptr && own->state() == QpState::kInit) return;
  OnReady(EPOLLIN);  // an answer that is here
  if (state_ == State::kAwaitAnswer) Die();
}

void ShmConnection::OnReady(std::uint32_t epoll_events) {
  // A connector that is gone by now wants no answer; there may be many from while we stood still.
  if (state_ == State::kAwaitHello && (epoll_events & EPOLLRDHUP) != 0) return Die();
  absl::StatusOr<ShmReceived> received = ReceiveShmMessage(fd_);
  if (received.status().code() == absl::StatusCode::kFailedPrecondition) return;
  if (received.status().code() == absl::StatusCode::kUnavailable) return OnHangUp();
  if (state_ == State::kAwaitHello) {
    if (!received.ok()) return Refuse(received.status().message());
    return OnHello(std::move(*received));
  }
  if (state_ == State::kAwaitAnswer && received.ok()) return OnAnswer(std::move(*received));
  // Nothing is sent after the handshake: who does it is not heard any more.
  OnHangUp();
}

void ShmConnection::OnHello(ShmReceived received) {
  if (received.message.kind != ShmMessage::Kind::kHello) return Refuse("refused: expected a hello");
  absl::StatusOr<std::shared_ptr<Mapping>> peer = peers_->MapPeer(received);
  if (!peer.ok()) return Refuse(absl::StrCat("refused: ", peer.status().message()));
  if (!MappedLink::NameIsValid(**peer, received.message.mailbox))
    return Refuse("refused: mailbox out of range");
  peer_ = std::move(*peer);
  peer_mailbox_ = received.message.mailbox;
  state_ = State::kRequested;
  device_->AddRequest(std::make_unique<ShmRequest>(shared_from_this()),
                      std::move(received.message.private_data));
}

absl::Status ShmConnection::AcceptWith(SoftQueuePair* own, absl::string_view private_data) {
  if (state_ != State::kRequested || !SendOwn(ShmMessage::Kind::kAccept, own, private_data)) {
    Die();
    return absl::UnavailableError("the peer closed its connection request");
  }
  state_ = State::kLinked;
  device_->Establish(own,
                     std::make_unique<MappedLink>(peer_, peer_mailbox_,
                                                  std::make_unique<ShmChannel>(shared_from_this()),
                                                  device_->options().copy_hook),
                     "");
  return absl::OkStatus();
}

void ShmConnection::OnAnswer(ShmReceived received) {
  SoftQueuePair* own = qp();
  if (received.message.kind == ShmMessage::Kind::kReject) {
    Die();
    if (own != nullptr) device_->FailConnect(own, std::move(received.message.private_data));
    return;
  }
  absl::StatusOr<std::shared_ptr<Mapping>> peer = peers_->MapPeer(received);
  const bool good = received.message.kind == ShmMessage::Kind::kAccept && peer.ok() &&
                    MappedLink::NameIsValid(**peer, received.message.mailbox);
  if (!good || own == nullptr || own->state() != QpState::kInit) {
    // The acceptor may already write to our mailbox: it is free again only at its end of file.
    state_ = State::kClosing;
    shutdown(fd_, SHUT_WR);
    if (own != nullptr && own->state() == QpState::kInit)
      device_->FailConnect(own, peer.ok() ? "" : std::string(peer.status().message()));
    return;
  }
  state_ = State::kLinked;
  device_->Establish(own,
                     std::make_unique<MappedLink>(std::move(*peer), received.message.mailbox,
                                                  std::make_unique<ShmChannel>(shared_from_this()),
                                                  device_->options().copy_hook),
                     std::move(received.message.private_data));
}

}  // namespace ring::rdma::soft
