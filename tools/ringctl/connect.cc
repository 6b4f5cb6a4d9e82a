#include "tools/ringctl/connect.h"

namespace ring::tools {

absl::StatusOr<std::unique_ptr<Client>> Connect(const Options& options) {
  ClientOptions client;
  client.seeds = SplitList(options.seeds);
  if (client.seeds.empty()) {
    return absl::FailedPreconditionError(
        "no cluster to talk to: give --seeds HOST:PORT, or set RING_SEEDS");
  }
  client.deadline = options.timeout();
  return Client::Connect(client);
}

}  // namespace ring::tools
