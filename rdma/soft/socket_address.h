// rdma/soft/socket_address.h — "HOST:PORT" of an address, as the system's calls want it.
//
// What:      ReadAddress, FormatAddress. HOST is a number, "[...]" around IPv6, or empty for any of
//            this host's. A name is none: devices connect on threads that serve, and to look a name
//            up may take ten seconds (ring/base/host_port.h does it elsewhere).
// Threads:   any; nobody is asked, nothing blocks.
// Errors:    kInvalidArgument.
#ifndef RING_RDMA_SOFT_SOCKET_ADDRESS_H_
#define RING_RDMA_SOFT_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::rdma::soft {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

// scheme: for messages, as "tcp". passive: an empty HOST is any address to listen at.
absl::StatusOr<SocketAddress> ReadAddress(absl::string_view scheme, absl::string_view address,
                                          bool passive);
// "tcp:HOST:PORT".
std::string FormatAddress(absl::string_view scheme, const SocketAddress& address);

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_SOCKET_ADDRESS_H_
