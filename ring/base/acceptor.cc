#include "ring/base/acceptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ring {
namespace {

constexpr int kGoneMax = 32;  // connections that are gone, passed over in one call

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(int fd, std::size_t reserve)
    : fd_(fd), reserve_(reserve), spare_fd_(OpenSpare()) {}

Acceptor::~Acceptor() {
  close(fd_);
  if (spare_fd_ >= 0) close(spare_fd_);
}

int Acceptor::Accept() const {
  return accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

// The system gives the lowest free number: those below it are taken. Above it there are none but
// what the process was started with.
bool Acceptor::MustRefuse(int fd) const {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t reserve = std::min<rlim_t>(reserve_, limit.rlim_cur / 4);
  return static_cast<rlim_t>(fd) + reserve >= limit.rlim_cur;
}

std::optional<Acceptor::Connection> Acceptor::Next() {
  // Given up for a refusal, or another thread took its place.
  if (spare_fd_ < 0) spare_fd_ = OpenSpare();
  for (int i = 0; i < kGoneMax; ++i) {
    const int fd = Accept();
    if (fd >= 0) return Connection{fd, MustRefuse(fd)};
    if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
    if ((errno != EMFILE && errno != ENFILE) || spare_fd_ < 0) return std::nullopt;
    close(std::exchange(spare_fd_, -1));
    const int refused = Accept();
    if (refused < 0) return std::nullopt;
    return Connection{refused, true};
  }
  return std::nullopt;
}

}  // namespace ring
