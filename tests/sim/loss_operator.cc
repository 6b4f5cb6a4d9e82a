#include "tests/sim/loss_operator.h"

#include <utility>

#include "ring/cluster/cluster_command.h"
#include "ring/node/health_report.h"

namespace ring::sim {

void LossOperator::Act() {
  const std::uint64_t now_ns = cluster_->network().now_ns();
  if (!cluster_->overran() || now_ns < next_ns_) return;
  if (seen_.empty()) {
    Look();
  } else {
    Say();
  }
  // Now and then at once, and often so late that more was lost meanwhile.
  const std::uint64_t wait_ns = options_.f3_word_min_ns
                                << random_.Below(options_.f3_word_doublings);
  next_ns_ = now_ns + random_.Below(wait_ns);
}

SimNode* LossOperator::NodeToAsk() const {
  for (const auto& node : cluster_->nodes()) {
    if (node->up() && !node->paused()) return node.get();
  }
  return nullptr;
}

std::vector<cluster::NodeHealth> LossOperator::Ask() const {
  std::vector<cluster::NodeHealth> reports;
  for (const auto& node : cluster_->nodes()) {
    if (node->up() && !node->paused()) reports.push_back(node::CollectHealth(node->node()));
  }
  return reports;
}

void LossOperator::Look() {
  const cluster::Health health = cluster::Summarize(cluster_->view(), cluster::kNoNode, Ask());
  for (const cluster::ShardHealth& shard : health.shards) {
    if (shard.stopped && !shard.lost.empty())
      seen_.push_back({shard.group, shard.shard, shard.epoch, shard.lost});
  }
}

void LossOperator::Say() {
  const std::vector<cluster::NodeHealth> reports = Ask();
  SimNode* const asked = NodeToAsk();
  for (const cluster::StoppedShard& seen : std::exchange(seen_, {})) {
    const cluster::GroupView& group = cluster_->view().groups[seen.group.value()];
    if (asked == nullptr || group.epoch != seen.epoch || !cluster::IsStopped(reports, seen))
      continue;
    cluster_->NoteAccepted(seen);
    asked->node().membership().Propose(
        cluster::Overrun{seen.group, seen.shard, seen.epoch, seen.lost}, [](const auto&) {});
    asked->Touch();
  }
}

}  // namespace ring::sim
