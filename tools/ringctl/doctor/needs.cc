#include "tools/ringctl/doctor/needs.h"

#include <algorithm>
#include <utility>

#include "ring/node/config/link_policy.h"

namespace ring::tools {
namespace {

constexpr std::uint64_t kStagingSize = 64 * 1024;
constexpr std::uint64_t kScratchSize = 4ull << 20;
constexpr std::uint64_t kDescriptorsLeft = 64;  // that a process keeps for itself

}  // namespace

Needs NeedsOf(const node::NodeConfig& config, int reactor_count) {
  Needs needs;
  const node::NodeEntry& self = config.self_entry();
  const auto need = [&config](node::Transport kind) {
    if (node::Requires(config, config.self, kind)) return Need::kMust;
    return node::Offers(config, config.self, kind) ? Need::kMay : Need::kNo;
  };
  needs.shm = need(node::Transport::kShm);
  needs.tcp = need(node::Transport::kTcp);
  needs.rdma = need(node::Transport::kRdma);
  needs.rdma_device = config.rdma_device;
  needs.rdma_gid_index = config.rdma_gid_index;
  const auto s = static_cast<std::uint64_t>(config.s);
  const auto d = static_cast<std::uint64_t>(config.d);
  const std::uint64_t links = s * (s + d - 1);  // as a member, and as many as a coordinator
  needs.arena_size = config.arena_size_max;
  needs.fixed_size = links * (config.ring_size + kStagingSize) + kScratchSize;
  // Over shm each client and each node has memory and a wake-up beside its connections. To each
  // peer a control connection and a word; per link two ends; twice while one is replaced.
  const std::uint64_t shared = needs.shm == Need::kNo ? 0 : 2;
  needs.descriptors = (1 + shared) * config.client_max + shared * config.nodes.size() +
                      2 * (2 * config.nodes.size() + 2 * links) + kDescriptorsLeft;
  needs.nodes_here = static_cast<int>(
      std::count_if(config.nodes.begin(), config.nodes.end(),
                    [&self](const node::NodeEntry& node) { return node.host == self.host; }));
  needs.reactors = reactor_count;
  needs.poll = config.poll;
  return needs;
}

Needs NeedsOfAdded(node::NodeConfig config, int reactor_count) {
  node::NodeEntry self;
  for (const node::NodeEntry& node : config.nodes) {
    if (!node.data.empty()) self.data = node.data;
    if (!node.shm.empty()) self.shm = node.shm;
    if (!node.rdma.empty()) self.rdma = node.rdma;
  }
  config.self = NodeId(static_cast<std::uint32_t>(config.nodes.size()));
  config.nodes.push_back(std::move(self));  // no file has a host without a name
  config.added_count = 1;
  return NeedsOf(config, reactor_count);
}

}  // namespace ring::tools
