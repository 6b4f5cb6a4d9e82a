#include "tests/sim/partitions.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::sim {

Partitions::Partitions(SimCluster* cluster, Random* random, const FaultOptions& options)
    : options_(options), cluster_(cluster), random_(random), clients_(cluster->seed() ^ 0xc0f) {}

void Partitions::Begin(std::uint64_t length_ns) {
  RING_CHECK(!any());
  heal_ns_ = cluster_->network().now_ns() + length_ns;
}

void Partitions::Part(std::uint64_t length_ns) {
  Begin(length_ns);
  const std::vector<std::shared_ptr<SimNode>>& nodes = cluster_->nodes();
  const std::uint64_t shape = random_->Below(3);
  std::vector<bool> side(nodes.size());
  for (std::size_t i = 0; i < side.size(); ++i) side[i] = random_->Below(2) == 0;
  const std::size_t bridge = random_->Below(side.size());
  for (std::size_t i = 0; i < side.size(); ++i) {
    for (std::size_t j = 0; j < side.size(); ++j) {
      const bool reaches_both = shape == 2 && (i == bridge || j == bridge);
      const bool one_way = shape == 1 && side[j];
      if (side[i] == side[j] || reaches_both || one_way) continue;
      Block(nodes[i]->host(), nodes[j]->host());
    }
  }
  cluster_->Note(absl::StrCat("nodes are parted for us=", length_ns / FaultOptions::kUs));
}

// Nobody can agree on anything for a while, and so nobody's roles move.
void Partitions::PartAll(std::uint64_t length_ns) {
  Begin(length_ns);
  const std::vector<std::shared_ptr<SimNode>>& nodes = cluster_->nodes();
  for (const std::shared_ptr<SimNode>& from : nodes) {
    for (const std::shared_ptr<SimNode>& to : nodes)
      if (from != to) Block(from->host(), to->host());
  }
  cluster_->network().faults().Count(rdma::sim::FaultClass::kF13Quorum);
  cluster_->Note(absl::StrCat("no quorum for us=", length_ns / FaultOptions::kUs));
}

// One way or both.
void Partitions::PartPair(NodeId one, NodeId other, std::uint64_t length_ns) {
  Begin(length_ns);
  const rdma::sim::HostId from = cluster_->nodes()[one.value()]->host();
  const rdma::sim::HostId to = cluster_->nodes()[other.value()]->host();
  Block(from, to);
  if (clients_.Below(3) != 0) Block(to, from);
  ++cluster_->network().faults().by_kind["F6 two nodes from each other"];
  cluster_->Note(absl::StrCat("node ", one.value(), " cannot reach node ", other.value(),
                              " for us=", length_ns / FaultOptions::kUs));
}

void Partitions::CutOff(const std::set<NodeId>& nodes, std::uint64_t length_ns) {
  Begin(length_ns);
  const auto inside = [&nodes](const SimNode& node) { return nodes.contains(node.info().id); };
  const std::uint64_t ways = random_->Below(3);
  for (const std::shared_ptr<SimNode>& node : cluster_->nodes()) {
    if (!inside(*node)) continue;
    for (const std::shared_ptr<SimNode>& other : cluster_->nodes()) {
      if (inside(*other)) continue;
      if (ways != 0) Block(node->host(), other->host());
      if (ways != 1) Block(other->host(), node->host());
    }
  }
  if (!OneIn(clients_, options_.f6_aside_one_in)) return;
  ++cluster_->network().faults().by_kind["F6 nodes aside with clients"];
  for (const std::shared_ptr<SimClient>& client : cluster_->clients()) {
    if (!client->up()) continue;
    // Most who only get stay, and others write meanwhile what they should not miss.
    const bool stays = (clients_.Below(4) == 0) != client->only_gets();
    for (const std::shared_ptr<SimNode>& other : cluster_->nodes()) {
      if (inside(*other) == stays) continue;
      Block(client->host(), other->host());
      Block(other->host(), client->host());
    }
  }
}

}  // namespace ring::sim
