#include "ring/base/host_port.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ring {
namespace {

absl::Status Failed(absl::string_view text, int error) {
  const std::string what =
      absl::StrCat(text, ": ", error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  if (error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY)
    return absl::UnavailableError(what);
  return absl::NotFoundError(what);
}

}  // namespace

bool IsHostPort(absl::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  absl::string_view host = text.substr(0, colon);
  int port = 0;
  const absl::string_view digits = text.substr(colon + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return false;
  if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) return false;
  if (host.front() == '[') return host.size() > 2 && host.back() == ']';
  return host.find_first_of(":/ \t") == host.npos;
}

absl::StatusOr<std::string> ResolveHostPort(absl::string_view text) {
  const std::size_t colon = text.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": give HOST:PORT"));
  }
  std::string host(text.substr(0, colon));
  if (host.empty()) return absl::StrCat(":", port);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    return Failed(text, error);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  char number[NI_MAXHOST];
  const int error = getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof(number), nullptr,
                                0, NI_NUMERICHOST);
  if (error != 0) return Failed(text, error);
  if (found->ai_family == AF_INET6) return absl::StrCat("[", number, "]:", port);
  return absl::StrCat(number, ":", port);
}

}  // namespace ring
