#include "rdma/soft/socket_listener.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

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

SocketListener::~SocketListener() {
  device_->Unwatch(acceptor_.fd(), this);
  if (timer_fd_ < 0) return;
  device_->Unwatch(timer_fd_, this);
  close(timer_fd_);
}

absl::Status SocketListener::Start() {
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_fd_ < 0)
    return absl::ResourceExhaustedError(absl::StrCat("timerfd_create: ", strerror(errno)));
  RING_RETURN_IF_ERROR(device_->Watch(timer_fd_, this, EPOLLIN));
  return device_->Watch(acceptor_.fd(), this, EPOLLIN);
}

void SocketListener::OnReady(std::uint32_t) {
  if (paused_) return Resume();
  constexpr int kBatch = 32;
  for (int i = 0; i < kBatch; ++i) {
    const std::optional<Acceptor::Connection> connection = acceptor_.Next();
    if (!connection.has_value()) {
      if (i == 0) Pause();  // somebody waits, and cannot be taken
      return;
    }
    if (!connection->refuse) {
      sink_->OnAccepted(connection->fd);
      continue;
    }
    sink_->Refuse(connection->fd, "refused: the process is out of file descriptors");
    close(connection->fd);
  }
}

void SocketListener::Pause() {
  itimerspec once{};
  once.it_value.tv_nsec = static_cast<long>(kRetryNs);
  RING_CHECK(timerfd_settime(timer_fd_, 0, &once, nullptr) == 0)
      << "timerfd_settime errno=" << errno;
  device_->ChangeWatch(acceptor_.fd(), this, 0);
  paused_ = true;
}

// Whether anybody still waits is what the socket's watch tells.
void SocketListener::Resume() {
  std::uint64_t expirations = 0;
  const ssize_t taken = read(timer_fd_, &expirations, sizeof(expirations));
  static_cast<void>(taken);  // so that it is readable no more
  device_->ChangeWatch(acceptor_.fd(), this, EPOLLIN);
  paused_ = false;
}

}  // namespace ring::rdma::soft
