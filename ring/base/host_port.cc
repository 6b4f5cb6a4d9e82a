#include "ring/base/host_port.h"

#include "absl/strings/numbers.h"

namespace ring {

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

}  // namespace ring
