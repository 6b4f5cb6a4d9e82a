// tools/ringctl/connect.h — the client of a data command.
//
// What:      Connect: a ring::Client for the seeds of the command line or RING_SEEDS.
// Threads:   one.
// Errors:    kFailedPrecondition (no seeds), and those of Client::Connect.
#ifndef RING_TOOLS_RINGCTL_CONNECT_H_
#define RING_TOOLS_RINGCTL_CONNECT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "api/client.h"
#include "tools/ringctl/options.h"

namespace ring::tools {

// The largest value that any cluster takes from this client; the cluster may take less.
inline constexpr std::uint64_t kValueSizeMax = std::uint64_t{16} << 20;

absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_CONNECT_H_
