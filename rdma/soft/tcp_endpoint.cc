#include "rdma/soft/tcp_endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/socket_listener.h"
#include "rdma/soft/tcp_connection.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

absl::StatusOr<SocketAddress> Resolve(absl::string_view address, bool passive) {
  const std::size_t colon = address.rfind(':');
  std::uint32_t port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("tcp:", address, ": give tcp:HOST:PORT"));
  }
  absl::string_view host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const std::string name(host);
  const int error = getaddrinfo(name.empty() ? nullptr : name.c_str(), absl::StrCat(port).c_str(),
                                &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tcp:", address, ": ", gai_strerror(error)));
  }
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.size = found->ai_addrlen;
  freeaddrinfo(found);
  return result;
}

std::string Format(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
    return absl::StrCat("tcp:[", host, "]:", ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
  return absl::StrCat("tcp:", host, ":", ntohs(v4->sin_port));
}

class TcpEndpoint final : public Endpoint, public SocketListener::Sink, public TcpDueList {
 public:
  explicit TcpEndpoint(SoftDevice* device) : device_(device) {}
  ~TcpEndpoint() override {
    for (const auto& connection : connections_) connection->Die();
  }
  bool mapped() const override { return false; }

  absl::StatusOr<std::string> Listen(absl::string_view text) override {
    RING_ASSIGN_OR_RETURN(SocketAddress address, Resolve(text, /*passive=*/true));
    const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("socket: ", strerror(errno)));
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address.raw(), address.size) != 0 || listen(fd, 512) != 0) {
      const int error = errno;
      close(fd);
      if (error == EADDRINUSE)
        return absl::AlreadyExistsError(absl::StrCat("tcp:", text, " is in use"));
      return absl::InvalidArgumentError(absl::StrCat("tcp:", text, ": ", strerror(error)));
    }
    getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
    listeners_.push_back(std::make_unique<SocketListener>(device_, fd, this));
    RING_RETURN_IF_ERROR(listeners_.back()->Start());
    return Format(address);
  }

  absl::Status Connect(absl::string_view text, SoftQueuePair* qp,
                       absl::string_view private_data) override {
    RING_ASSIGN_OR_RETURN(const SocketAddress address, Resolve(text, /*passive=*/false));
    const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("socket: ", strerror(errno)));
    if (connect(fd, address.raw(), address.size) != 0 && errno != EINPROGRESS) {
      close(fd);
      device_->FailConnect(qp, "");
      return absl::OkStatus();
    }
    auto connection =
        std::make_shared<TcpConnection>(device_, this, fd, TcpConnection::State::kConnecting);
    connection->Propose(qp, private_data);
    connections_.push_back(connection);
    return connection->Start();
  }

  void OnAccepted(int fd) override {
    std::size_t waiting = 0;
    for (const auto& connection : connections_) waiting += connection->AwaitsHello() ? 1 : 0;
    const std::string full = FullReason(device_->options(), connections_.size(), waiting);
    if (!full.empty()) {
      Refuse(fd, full);
      close(fd);
      return;
    }
    connections_.push_back(
        std::make_shared<TcpConnection>(device_, this, fd, TcpConnection::State::kAwaitHello));
    if (!connections_.back()->Start().ok()) connections_.back()->Die();
  }

  void Refuse(int fd, absl::string_view reason) override {
    TcpFrame frame;
    frame.type = TcpFrameType::kReject;
    reason = reason.substr(0, kPrivateDataSizeMax);
    frame.payload_length = static_cast<std::uint32_t>(reason.size());
    std::array<std::byte, kTcpHeaderSize + kPrivateDataSizeMax> message;
    EncodeTcpFrame(frame, message.data());
    std::memcpy(message.data() + kTcpHeaderSize, reason.data(), reason.size());
    const ssize_t sent =
        send(fd, message.data(), kTcpHeaderSize + reason.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    static_cast<void>(sent);  // best effort: the peer sees the end of file in any case
    shutdown(fd, SHUT_WR);
    // Reading the peer's hello, if it is there, keeps the close from resetting the connection under
    // our answer.
    std::byte hello[kTcpHeaderSize + kPrivateDataSizeMax];
    const ssize_t taken = recv(fd, hello, sizeof(hello), MSG_DONTWAIT);
    static_cast<void>(taken);
  }

  bool Progress() override {
    if (due_.empty()) return false;
    bool worked = false;
    // Those that become due meanwhile are for the next turn.
    now_due_.swap(due_);
    for (TcpConnection* const connection : now_due_) {
      worked |= connection->Progress();
      if (connection->state() == TcpConnection::State::kDead) Forget(connection);
    }
    now_due_.clear();
    return worked;
  }

  void AddDue(TcpConnection* connection) override { due_.push_back(connection); }

 private:
  void Forget(TcpConnection* connection) {
    due_.erase(std::remove(due_.begin(), due_.end(), connection), due_.end());
    const auto it = std::find_if(connections_.begin(), connections_.end(),
                                 [&](const auto& one) { return one.get() == connection; });
    if (it == connections_.end()) return;
    *it = std::move(connections_.back());
    connections_.pop_back();
  }

  SoftDevice* device_;
  std::vector<TcpConnection*> due_;
  std::vector<TcpConnection*> now_due_;
  std::vector<std::shared_ptr<TcpConnection>> connections_;
  std::vector<std::unique_ptr<SocketListener>> listeners_;
};

}  // namespace

std::unique_ptr<Endpoint> MakeTcpEndpoint(SoftDevice* device) {
  return std::make_unique<TcpEndpoint>(device);
}

}  // namespace ring::rdma::soft
