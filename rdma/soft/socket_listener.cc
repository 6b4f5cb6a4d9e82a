#include "rdma/soft/socket_listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "rdma/soft/device.h"

namespace ring::rdma::soft {

SocketListener::SocketListener(SoftDevice* device, int fd, Sink* sink)
    : device_(device), fd_(fd), sink_(sink) {
  spare_fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

SocketListener::~SocketListener() {
  device_->Unwatch(fd_, this);
  close(fd_);
  if (spare_fd_ >= 0) close(spare_fd_);
}

absl::Status SocketListener::Start() { return device_->Watch(fd_, this, EPOLLIN); }

void SocketListener::OnReady(std::uint32_t) {
  constexpr int kBatch = 32;
  for (int i = 0; i < kBatch; ++i) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      sink_->OnAccepted(fd);
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EMFILE && errno != ENFILE) return;
    RefuseWithSpare();
    return;
  }
}

void SocketListener::RefuseWithSpare() {
  if (spare_fd_ < 0) return;
  close(spare_fd_);
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    sink_->Refuse(fd, "refused: the process is out of file descriptors");
    close(fd);
  }
  spare_fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace ring::rdma::soft
