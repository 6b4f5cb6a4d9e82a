#include "tests/sim/false_alarm.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMs = FaultOptions::kMs;
// By then somebody leads, and has noticed.
constexpr std::uint64_t kMissedWithinNs = 1'200 * kMs;

// Who has a role that was the node's when a shard served last.
std::optional<NodeId> SuccessorOf(const cluster::View& view, NodeId node) {
  for (const cluster::GroupView& group : view.groups) {
    for (const cluster::ShardView& shard : group.shards) {
      for (std::size_t x = 0; x < shard.normal.holders.size(); ++x) {
        const bool was = shard.normal.holders[x].node == node;
        if (was && group.roles[x] != node && group.roles[x] != cluster::kNoNode)
          return group.roles[x];
      }
    }
  }
  return std::nullopt;
}

}  // namespace

void FalseAlarm::Begin(NodeId missed, Random& random) {
  missed_ = missed;
  instead_.reset();
  silent_ns_ = now_ns() + random.Below(options_.f5_alarm_gap_max_ns);
  wakes_after_ns_ = random.Below(options_.f5_alarm_wakes_max_ns);
  wakes_ns_ = 0;
  over_ns_ = silent_ns_ + kMissedWithinNs;
  given_back_ = GivenBack();
  cluster_->network().faults().Count(rdma::sim::FaultClass::kF5Pause, "false alarms");
  cluster_->Note(absl::StrCat("node ", missed.value(), " is silent until it is missed"));
}

std::uint64_t FalseAlarm::GivenBack() const {
  return cluster_->network().faults().by_kind["F5 roles given back"];
}

// For a little longer than until this is looked at again.
void FalseAlarm::HoldUp(NodeId id, std::uint64_t until_ns) {
  SimNode& node = *cluster_->nodes()[id.value()];
  if (node.up()) node.PauseLonger(std::min(until_ns, now_ns() + kMs));
}

void FalseAlarm::Act() {
  if (!missed_.has_value() || now_ns() < silent_ns_) return;
  const cluster::View& view = cluster_->view();
  if (now_ns() >= over_ns_ || !cluster_->nodes()[missed_->value()]->up()) return End();
  if (wakes_ns_ == 0 && view.nodes[missed_->value()].status != cluster::NodeStatus::kUp) {
    wakes_ns_ = now_ns() + wakes_after_ns_;
    over_ns_ = now_ns() + options_.f5_alarm_stands_ns;
    instead_ = SuccessorOf(view, *missed_);
    if (instead_.has_value())
      cluster_->Note(absl::StrCat("node ", instead_->value(), " has its roles, and stands still"));
  }
  if (wakes_ns_ == 0) return HoldUp(*missed_, over_ns_);
  HoldUp(*missed_, wakes_ns_);
  if (GivenBack() > given_back_) return End();
  if (instead_.has_value()) HoldUp(*instead_, over_ns_);
}

}  // namespace ring::sim
