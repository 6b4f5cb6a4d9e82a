// ring/base/host_port.h — addresses as people write them.
//
// What:      IsHostPort: whether a text is HOST:PORT or [IPV6]:PORT, with a port that others can
//            know. ResolveHostPort: the same with the number of the host in the place of its name.
// Threads:   any. IsHostPort is pure. ResolveHostPort asks the system's resolver, which may take
//            ten seconds and more: never on a thread that serves. What is a number already asks
//            nobody.
// Errors:    ResolveHostPort: kInvalidArgument (no HOST:PORT), kNotFound (there is no such host),
//            kUnavailable (nobody could tell: try again); each names the text.
#ifndef RING_BASE_HOST_PORT_H_
#define RING_BASE_HOST_PORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring {

// Nothing is looked up: whether such a host exists shows when it is resolved.
bool IsHostPort(absl::string_view text);

// The first address that the system gives. An empty host stays empty: any of this machine's.
absl::StatusOr<std::string> ResolveHostPort(absl::string_view text);

}  // namespace ring

#endif  // RING_BASE_HOST_PORT_H_
