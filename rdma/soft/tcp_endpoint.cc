#include "rdma/soft/tcp_endpoint.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/socket_address.h"
#include "rdma/soft/socket_listener.h"
#include "rdma/soft/tcp_connection.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

class TcpEndpoint final : public Endpoint, public SocketListener::Sink, public TcpDueList {
 public:
  explicit TcpEndpoint(SoftDevice* device) : device_(device) {}
  ~TcpEndpoint() override {
    for (const auto& connection : connections_) connection->Die();
  }
  bool mapped() const override { return false; }

  absl::StatusOr<std::string> Listen(absl::string_view text) override {
    RING_ASSIGN_OR_RETURN(SocketAddress address, ReadAddress("tcp", text, /*passive=*/true));
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
    getsockname(fd, address.raw(), &address.size);
    listeners_.push_back(std::make_unique<SocketListener>(device_, fd, this));
    RING_RETURN_IF_ERROR(listeners_.back()->Start());
    return FormatAddress("tcp", address);
  }

  absl::Status Connect(absl::string_view text, SoftQueuePair* qp,
                       absl::string_view private_data) override {
    RING_ASSIGN_OR_RETURN(const SocketAddress address, ReadAddress("tcp", text, /*passive=*/false));
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
