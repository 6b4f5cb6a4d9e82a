#include "rdma/soft/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ring::rdma::soft {

absl::StatusOr<SocketAddress> ReadAddress(absl::string_view scheme, absl::string_view address,
                                          bool passive) {
  const std::size_t colon = address.rfind(':');
  std::uint32_t port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(scheme, ":", address, ": give ", scheme, ":HOST:PORT"));
  }
  absl::string_view host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string name(host);
  const int error = getaddrinfo(name.empty() ? nullptr : name.c_str(), absl::StrCat(port).c_str(),
                                &hints, &found);
  if (error == EAI_NONAME) {
    return absl::InvalidArgumentError(
        absl::StrCat(scheme, ":", address,
                     ": not a numeric address: names are looked up before they come here"));
  }
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(scheme, ":", address, ": ", gai_strerror(error)));
  }
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.size = found->ai_addrlen;
  freeaddrinfo(found);
  return result;
}

std::string FormatAddress(absl::string_view scheme, const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
    return absl::StrCat(scheme, ":[", host, "]:", ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
  return absl::StrCat(scheme, ":", host, ":", ntohs(v4->sin_port));
}

}  // namespace ring::rdma::soft
