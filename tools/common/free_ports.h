// tools/common/free_ports.h — ports for programs that have to be told theirs before they run.
//
// What:      FreePort: a TCP port of 127.0.0.1 that nobody listened on just now. FreePorts: several
//            that all differ.
// Threads:   any.
// Errors:    kUnavailable, with what the system said.
#ifndef RING_TOOLS_COMMON_FREE_PORTS_H_
#define RING_TOOLS_COMMON_FREE_PORTS_H_

#include <vector>

#include "absl/status/statusor.h"

namespace ring::tools {

absl::StatusOr<int> FreePort();
absl::StatusOr<std::vector<int>> FreePorts(int count);

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_FREE_PORTS_H_
