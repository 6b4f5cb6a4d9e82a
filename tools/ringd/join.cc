#include "tools/ringd/join.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/client.h"
#include "api/client_core.h"
#include "rdma/host_identity.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/node/config/added_node.h"
#include "ring/node/config/link_policy.h"

namespace ring::tools {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(2);  // with the cluster, at a time

ClientOptions Seeds(const node::NodeConfig& config) {
  ClientOptions options;
  options.deadline = kPatience;
  options.window = 1;
  for (std::size_t i = 0; i < config.nodes.size(); ++i) {
    const node::NodeEntry& entry = config.nodes[i];
    const NodeId id(static_cast<std::uint32_t>(i));
    if (node::Offers(config, id, node::Transport::kTcp)) {
      options.seeds.push_back(absl::StrCat("tcp:", entry.data));
    } else if (node::Offers(config, id, node::Transport::kShm)) {
      options.seeds.push_back(absl::StrCat("shm:", entry.shm));
    } else if (node::Offers(config, id, node::Transport::kRdma)) {
      options.seeds.push_back(absl::StrCat("rdma:", entry.rdma));
    }
  }
  return options;
}

// Connects anew each time: a view that is kept would be refreshed at the pace of a client's needs.
absl::Status TryJoin(const std::string& name, node::NodeConfig* config) {
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<api::ClientCore> client,
                        api::ClientCore::Open(Seeds(*config)));
  return node::JoinConfig(client->view(), name, rdma::HostIdentity(), config);
}

}  // namespace

absl::Status AwaitAdded(absl::FunctionRef<bool()> stop, const std::string& name,
                        node::NodeConfig* config) {
  absl::Status told;
  for (;;) {
    const absl::Status status = TryJoin(name, config);
    if (status.ok() || absl::IsInvalidArgument(status)) return status;
    if (status != told) RING_LOG(WARNING) << "waits to join: " << status.message();
    told = status;
    if (stop()) return absl::CancelledError("told to stop");
  }
}

}  // namespace ring::tools
