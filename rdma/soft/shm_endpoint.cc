#include "rdma/soft/shm_endpoint.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/mapped_link.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/shm_wire.h"
#include "rdma/soft/socket_listener.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

class ShmEndpoint;

// One handshake socket, until both sides have let go.
class ShmConnection final : public FdHandler {
 public:
  enum class State { kAwaitHello, kRequested, kAwaitAnswer, kLinked, kClosing, kDead };

  ShmConnection(ShmEndpoint* endpoint, SoftDevice* device, int fd, State state)
      : endpoint_(endpoint),
        device_(device),
        fd_(fd),
        state_(state),
        created_ns_(device->NowNs()) {}
  ~ShmConnection() override { Die(); }

  State state() const { return state_; }
  std::uint64_t created_ns() const { return created_ns_; }
  bool hung_up() const { return hung_up_; }

  absl::Status Start() { return device_->Watch(fd_, this, EPOLLIN | EPOLLRDHUP); }
  // Binds our end; the peer learns the mailbox with the message.
  bool SendOwn(ShmMessage::Kind kind, SoftQueuePair* qp, absl::string_view private_data);
  void Refuse(absl::string_view reason);
  void OnReady(std::uint32_t epoll_events) override;
  absl::Status AcceptWith(SoftQueuePair* qp, absl::string_view private_data);
  // The link closed: nothing of the peer is touched any more.
  void LetGo();
  void Die();

 private:
  void OnHello(ShmReceived received);
  void OnAnswer(ShmReceived received);
  void OnHangUp();
  SoftQueuePair* qp() const { return device_->FindQueuePair(qp_number_); }

  ShmEndpoint* endpoint_;
  SoftDevice* device_;
  int fd_;
  State state_;
  std::uint64_t created_ns_;
  bool hung_up_ = false;
  std::uint32_t qp_number_ = 0;
  MailboxName own_mailbox_;  // key 0: the peer knows none
  std::shared_ptr<Mapping> peer_;
  MailboxName peer_mailbox_;
};

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

class ShmEndpoint final : public Endpoint, public SocketListener::Sink {
 public:
  explicit ShmEndpoint(SoftDevice* device) : device_(device) {}
  ~ShmEndpoint() override {
    for (const std::string& path : paths_) unlink(path.c_str());
    for (const auto& connection : connections_) connection->Die();
  }
  bool mapped() const override { return true; }
  absl::StatusOr<std::string> Listen(absl::string_view address) override;
  absl::Status Connect(absl::string_view address, SoftQueuePair* qp,
                       absl::string_view private_data) override;
  bool Progress() override;
  void OnAccepted(int fd) override;
  void Refuse(int fd, absl::string_view reason) override {
    ShmMessage message;
    message.kind = ShmMessage::Kind::kReject;
    message.private_data = std::string(reason);
    SendShmMessage(fd, message, -1, -1);
  }
  std::shared_ptr<ShmConnection> Share(const ShmConnection* connection) const;
  void NoteDead() { sweep_ = true; }
  // Many queue pairs between two processes share one mapping.
  absl::StatusOr<std::shared_ptr<Mapping>> MapPeer(ShmReceived& received);

 private:
  struct Known {
    dev_t device;
    ino_t inode;
    std::weak_ptr<Mapping> mapping;
  };
  std::size_t AwaitingHello() const;

  SoftDevice* device_;
  std::vector<std::shared_ptr<ShmConnection>> connections_;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<SocketListener>> listeners_;
  std::vector<Known> known_;
  bool sweep_ = false;
};

// --- connection ---

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
  endpoint_->Refuse(fd_, reason);
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
  endpoint_->NoteDead();
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
  const std::shared_ptr<ShmConnection> self = endpoint_->Share(this);
  Die();
  if (own == nullptr) return;
  if (before == State::kClosing) {
    device_->CheckPeer(own);
  } else if (before == State::kAwaitAnswer && own->state() == QpState::kInit) {
    device_->FailConnect(own, "");
  }
}

void ShmConnection::OnReady(std::uint32_t) {
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
  absl::StatusOr<std::shared_ptr<Mapping>> peer = endpoint_->MapPeer(received);
  if (!peer.ok()) return Refuse(absl::StrCat("refused: ", peer.status().message()));
  if (!MappedLink::NameIsValid(**peer, received.message.mailbox))
    return Refuse("refused: mailbox out of range");
  peer_ = std::move(*peer);
  peer_mailbox_ = received.message.mailbox;
  state_ = State::kRequested;
  device_->AddRequest(std::make_unique<ShmRequest>(endpoint_->Share(this)),
                      std::move(received.message.private_data));
}

absl::Status ShmConnection::AcceptWith(SoftQueuePair* own, absl::string_view private_data) {
  if (state_ != State::kRequested || !SendOwn(ShmMessage::Kind::kAccept, own, private_data)) {
    Die();
    return absl::UnavailableError("the peer closed its connection request");
  }
  state_ = State::kLinked;
  device_->Establish(own,
                     std::make_unique<MappedLink>(
                         peer_, peer_mailbox_, std::make_unique<ShmChannel>(endpoint_->Share(this)),
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
  absl::StatusOr<std::shared_ptr<Mapping>> peer = endpoint_->MapPeer(received);
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
  device_->Establish(
      own,
      std::make_unique<MappedLink>(std::move(*peer), received.message.mailbox,
                                   std::make_unique<ShmChannel>(endpoint_->Share(this)),
                                   device_->options().copy_hook),
      std::move(received.message.private_data));
}

// --- endpoint ---

absl::StatusOr<sockaddr_un> UnixAddress(absl::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("shm:", path, ": the path must have 1 to ",
                                                   sizeof(address.sun_path) - 1, " characters"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<std::string> ShmEndpoint::Listen(absl::string_view path) {
  RING_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("socket: ", strerror(errno)));
  int bound = bind(fd, raw, sizeof(address));
  if (bound != 0 && errno == EADDRINUSE) {
    // Left behind by a dead process if nobody answers.
    const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool dead =
        probe >= 0 && connect(probe, raw, sizeof(address)) != 0 && errno == ECONNREFUSED;
    if (probe >= 0) close(probe);
    if (dead) {
      unlink(address.sun_path);
      bound = bind(fd, raw, sizeof(address));
    } else {
      errno = EADDRINUSE;
    }
  }
  if (bound != 0 || listen(fd, 128) != 0) {
    const int error = errno;
    close(fd);
    if (error == EADDRINUSE)
      return absl::AlreadyExistsError(absl::StrCat("shm:", path, " is in use"));
    return absl::InvalidArgumentError(absl::StrCat("shm:", path, ": ", strerror(error)));
  }
  paths_.emplace_back(path);
  listeners_.push_back(std::make_unique<SocketListener>(device_, fd, this));
  RING_RETURN_IF_ERROR(listeners_.back()->Start());
  return absl::StrCat("shm:", path);
}

absl::Status ShmEndpoint::Connect(absl::string_view path, SoftQueuePair* qp,
                                  absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("socket: ", strerror(errno)));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    device_->FailConnect(qp, "");
    return absl::OkStatus();
  }
  connections_.push_back(
      std::make_shared<ShmConnection>(this, device_, fd, ShmConnection::State::kAwaitAnswer));
  ShmConnection& connection = *connections_.back();
  absl::Status watched = connection.Start();
  if (!watched.ok() || !connection.SendOwn(ShmMessage::Kind::kHello, qp, private_data)) {
    connection.Die();
    if (!watched.ok()) return watched;
    device_->FailConnect(qp, "");
  }
  return absl::OkStatus();
}

std::size_t ShmEndpoint::AwaitingHello() const {
  std::size_t count = 0;
  for (const auto& connection : connections_) {
    count += connection->state() == ShmConnection::State::kAwaitHello ? 1 : 0;
  }
  return count;
}

void ShmEndpoint::OnAccepted(int fd) {
  const SoftDeviceOptions& options = device_->options();
  if (connections_.size() >= options.connection_count_max ||
      AwaitingHello() >= options.hello_count_max) {
    Refuse(fd, absl::StrCat("refused: connection_count_max=", options.connection_count_max,
                            " reached"));
    close(fd);
    return;
  }
  connections_.push_back(
      std::make_shared<ShmConnection>(this, device_, fd, ShmConnection::State::kAwaitHello));
  if (!connections_.back()->Start().ok()) connections_.back()->Die();
}

bool ShmEndpoint::Progress() {
  if (AwaitingHello() > 0) {
    const std::uint64_t now = device_->NowNs();
    const std::uint64_t limit = std::uint64_t{device_->options().hello_timeout_ms} * 1'000'000;
    for (const auto& connection : connections_) {
      if (connection->state() == ShmConnection::State::kAwaitHello &&
          now - connection->created_ns() > limit) {
        connection->Refuse("refused: no hello in time");
      }
    }
  }
  if (!sweep_) return false;
  sweep_ = false;
  connections_.erase(
      std::remove_if(connections_.begin(), connections_.end(),
                     [](const auto& c) { return c->state() == ShmConnection::State::kDead; }),
      connections_.end());
  return true;
}

std::shared_ptr<ShmConnection> ShmEndpoint::Share(const ShmConnection* connection) const {
  const auto it = std::find_if(connections_.begin(), connections_.end(),
                               [connection](const auto& c) { return c.get() == connection; });
  return *it;
}

absl::StatusOr<std::shared_ptr<Mapping>> ShmEndpoint::MapPeer(ShmReceived& received) {
  struct stat status;
  if (fstat(received.fds[0], &status) != 0)
    return absl::InvalidArgumentError("the memory descriptor is not valid");
  known_.erase(std::remove_if(known_.begin(), known_.end(),
                              [](const Known& k) { return k.mapping.expired(); }),
               known_.end());
  const MappingLayout& layout = received.message.layout;
  for (const Known& known : known_) {
    std::shared_ptr<Mapping> mapping = known.mapping.lock();
    if (mapping != nullptr && known.device == status.st_dev && known.inode == status.st_ino &&
        std::memcmp(&mapping->layout(), &layout, sizeof(layout)) == 0 &&
        mapping->owner_arena_address() == received.message.arena_address) {
      return mapping;
    }
  }
  RING_ASSIGN_OR_RETURN(std::shared_ptr<Mapping> mapping,
                        Mapping::Attach(received.TakeMemoryFd(), received.TakeEventFd(), layout,
                                        received.message.arena_address));
  known_.push_back({status.st_dev, status.st_ino, mapping});
  return mapping;
}

}  // namespace

std::unique_ptr<Endpoint> MakeShmEndpoint(SoftDevice* device) {
  return std::make_unique<ShmEndpoint>(device);
}

}  // namespace ring::rdma::soft
