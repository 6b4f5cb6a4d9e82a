// ring/base/host_port.h — whether a text is an address that somebody can be reached by.
//
// What:      IsHostPort: HOST:PORT or [IPV6]:PORT, with a port that others can know.
// Threads:   pure.
// Errors:    none. Nothing is looked up: whether such a host exists shows when it is connected.
#ifndef RING_BASE_HOST_PORT_H_
#define RING_BASE_HOST_PORT_H_

#include "absl/strings/string_view.h"

namespace ring {

bool IsHostPort(absl::string_view text);

}  // namespace ring

#endif  // RING_BASE_HOST_PORT_H_
