#include "tools/common/free_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ring/base/status.h"

namespace ring::tools {
namespace {

// Below the ports that Linux gives out by itself: one of those may become the end of somebody's
// connection before who asked for it listens there.
constexpr int kPortFirst = 10'000;
constexpr int kPortEnd = 32'768;
constexpr int kPortAttemptsMax = 1'000;

absl::Status ErrnoStatus(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<int> BindToFreePort(int fd) {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kPortFirst, kPortEnd - 1);
  for (int attempt = 0; attempt < kPortAttemptsMax; ++attempt) {
    const int port = ports(random);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return port;
    if (errno != EADDRINUSE) break;
  }
  return ErrnoStatus("bind address=127.0.0.1");
}

}  // namespace

// Held together: one that is given back may be the next one that is given out.
absl::StatusOr<std::vector<int>> FreePorts(int count) {
  std::vector<int> ports;
  std::vector<int> sockets;
  absl::Status status;
  for (int i = 0; i < count && status.ok(); ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      status = ErrnoStatus("socket");
      break;
    }
    sockets.push_back(fd);
    const absl::StatusOr<int> port = BindToFreePort(fd);
    if (port.ok()) {
      ports.push_back(*port);
    } else {
      status = port.status();
    }
  }
  for (const int fd : sockets) close(fd);
  RING_RETURN_IF_ERROR(status);
  return ports;
}

absl::StatusOr<int> FreePort() {
  RING_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(1));
  return ports.front();
}

}  // namespace ring::tools
