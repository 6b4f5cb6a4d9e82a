#include "rdma/soft/socket_listener.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"

namespace ring::rdma::soft {

std::string FullReason(const SoftDeviceOptions& options, std::size_t connection_count,
                       std::size_t hello_count) {
  if (connection_count >= options.connection_count_max) {
    return absl::StrCat("refused: connection_count_max=", options.connection_count_max, " reached");
  }
  if (hello_count >= options.hello_count_max) {
    return absl::StrCat("refused: hello_count_max=", options.hello_count_max,
                        " connections have not said hello yet");
  }
  return "";
}

SocketListener::SocketListener(SoftDevice* device, int fd, Sink* sink)
    : device_(device), acceptor_(fd, kReserve), sink_(sink) {}

SocketListener::~SocketListener() { device_->Unwatch(acceptor_.fd(), this); }

absl::Status SocketListener::Start() { return device_->Watch(acceptor_.fd(), this, EPOLLIN); }

void SocketListener::OnReady(std::uint32_t) {
  constexpr int kBatch = 32;
  for (int i = 0; i < kBatch; ++i) {
    const std::optional<Acceptor::Connection> connection = acceptor_.Next();
    if (!connection.has_value()) return;
    if (!connection->refuse) {
      sink_->OnAccepted(connection->fd);
      continue;
    }
    sink_->Refuse(connection->fd, "refused: the process is out of file descriptors");
    close(connection->fd);
  }
}

}  // namespace ring::rdma::soft
