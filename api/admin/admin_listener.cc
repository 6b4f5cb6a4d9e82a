#include "api/admin/admin_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "api/admin/preface_gate.h"
#include "ring/base/boot_clock.h"
#include "ring/base/check.h"

namespace ring::admin {
namespace {

absl::Status CannotListen(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen at admin address=", address, ": ", why,
                                             ": is it taken, or not an address of this machine?"));
}

// The host may be empty, a name, or an IPv6 address in brackets.
addrinfo* Resolve(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1,
                                &hints, &found);
  return error == 0 ? found : nullptr;
}

// -1 and errno when it cannot.
int ListenAt(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  // Connections take over what is set here. Without SO_REUSEPORT, so that no second process can
  // listen at the same port and take half of the calls.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, 128) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  RING_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0) << "getsockname";
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

std::int64_t NowMs() { return static_cast<std::int64_t>(BootClock().NowNs() / 1'000'000); }

}  // namespace

absl::StatusOr<std::unique_ptr<AdminListener>> AdminListener::Open(const std::string& address) {
  if (address.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("admin address=", address, " must be HOST:PORT"));
  }
  addrinfo* const found = Resolve(address);
  if (found == nullptr) return CannotListen(address, "it has no address");
  // A name may have addresses of which this machine has not all.
  int fd = -1;
  int error = 0;
  for (const addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
    fd = ListenAt(*one);
    error = errno;
  }
  freeaddrinfo(found);
  if (fd < 0) return CannotListen(address, strerror(error));
  return std::unique_ptr<AdminListener>(new AdminListener(fd, PortOf(fd)));
}

AdminListener::AdminListener(int fd, int port)
    : acceptor_(std::make_unique<Acceptor>(fd, kReserve)),
      port_(port),
      stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  RING_CHECK(stop_fd_ >= 0) << "eventfd";
}

AdminListener::~AdminListener() {
  Stop();
  close(stop_fd_);
}

void AdminListener::Start(absl::AnyInvocable<void(int)> take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void AdminListener::Stop() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    RING_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one)) << "eventfd";
    thread_.join();
  }
  acceptor_.reset();
}

void AdminListener::Run() {
  // Nothing to accept, though poll says that there is: the system is out of something. A connection
  // that waits is looked at again after this time.
  constexpr int kRetryMs = 20;
  PrefaceGate gate;
  bool retry = false;
  for (;;) {
    pollfd fds[3] = {{stop_fd_, POLLIN, 0}, {gate.fd(), POLLIN, 0}, {acceptor_->fd(), POLLIN, 0}};
    // While it retries, nobody new is waited for.
    if (poll(fds, retry ? 2 : 3, retry ? kRetryMs : gate.TimeoutMs(NowMs())) < 0) continue;
    if (fds[0].revents != 0) return;
    gate.Turn(NowMs(), [this](int fd) { take_(fd); });
    const bool look = retry || fds[2].revents != 0;
    retry = false;
    if (!look) continue;
    const std::optional<Acceptor::Connection> connection = acceptor_->Next();
    retry = !connection.has_value();
    if (retry) continue;
    if (connection->refuse) {
      PrefaceGate::Refuse(connection->fd, "the process is out of file descriptors");
    } else {
      gate.Add(connection->fd, NowMs());
    }
  }
}

}  // namespace ring::admin
