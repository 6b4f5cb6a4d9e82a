// tools/ringctl/connect.h — the client of a data command.
//
// What:      Connect: a ring::Client for the seeds of the command line or RING_SEEDS.
// Threads:   one.
// Errors:    kFailedPrecondition (no seeds), and those of Client::Connect.
#ifndef RING_TOOLS_RINGCTL_CONNECT_H_
#define RING_TOOLS_RINGCTL_CONNECT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "api/client.h"
#include "tools/ringctl/options.h"

namespace ring::tools {

absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_CONNECT_H_
