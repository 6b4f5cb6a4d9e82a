#include "tests/sim/withhold.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {
// By then whoever is lost was missed.
constexpr std::uint64_t kGoneNs = 1'000 * FaultOptions::kMs;
// Between two of one node: else it is silent for most of the time, and missed.
constexpr std::uint64_t kQuietNs = 150 * FaultOptions::kMs;
}  // namespace

void Withhold::Begin(NodeId node, Random& random) {
  if (now_ns() < std::max(end_ns_, gone_until_ns_) || now_ns() < quiet_until_ns_[node]) return;
  node_ = node;
  others_.clear();
  for (const std::shared_ptr<SimNode>& other : cluster_->nodes()) {
    if (other->info().id != node) others_.push_back(other->info().id);
  }
  if (random.Below(2) == 0)
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(random.Below(others_.size())));
  begun_ns_ = now_ns();
  end_ns_ = now_ns() + 1 + random.Below(options_.f6_withhold_max_ns);
  quiet_until_ns_[node] = end_ns_ + kQuietNs;
  Block(end_ns_);
  cluster_->Note(absl::StrCat("node ", node.value(), " reaches ",
                              cluster_->nodes().size() - 1 - others_.size(),
                              " others for us=", (end_ns_ - now_ns()) / FaultOptions::kUs));
}

bool Withhold::IsAnswer(const Operation& op) {
  const bool told = op.result == OpResult::kOk || op.result == OpResult::kNotFound || op.mismatch;
  if (now_ns() >= end_ns_ || !told || op.invoke_ns < begun_ns_) return false;
  return cluster_->OwnerOf(op.key) == node_;
}

void Withhold::KeepAway() {
  end_ns_ = 0;
  gone_until_ns_ = now_ns() + kGoneNs;
  Block(gone_until_ns_);
}

void Withhold::Block(std::uint64_t until_ns) {
  rdma::sim::SimNetwork& network = cluster_->network();
  const rdma::sim::HostId from = cluster_->nodes()[node_.value()]->host();
  for (const NodeId other : others_)
    network.Block(from, cluster_->nodes()[other.value()]->host(), until_ns);
}

}  // namespace ring::sim
