#include "rdma/soft/retry_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::rdma::soft {

RetryTimer::~RetryTimer() {
  if (fd_ >= 0) close(fd_);
}

absl::Status RetryTimer::Open() {
  fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd_ < 0)
    return absl::ResourceExhaustedError(absl::StrCat("timerfd_create: ", strerror(errno)));
  return absl::OkStatus();
}

void RetryTimer::Start() {
  itimerspec once{};
  once.it_value.tv_nsec = static_cast<long>(kPeriodNs);
  RING_CHECK(timerfd_settime(fd_, 0, &once, nullptr) == 0) << "timerfd_settime errno=" << errno;
}

void RetryTimer::OnReady(std::uint32_t) {
  std::uint64_t expirations = 0;
  const ssize_t taken = read(fd_, &expirations, sizeof(expirations));
  static_cast<void>(taken);  // it may have been started anew meanwhile
}

}  // namespace ring::rdma::soft
