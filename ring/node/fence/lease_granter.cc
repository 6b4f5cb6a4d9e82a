#include "ring/node/fence/lease_granter.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/cluster/health.h"

namespace ring::node {
namespace {

// Also one that is down: what was proposed before, and is not applied yet, may bring it back.
NodeId IfItMayServe(const cluster::View& view, NodeId node) {
  const bool may = node.value() < view.nodes.size() &&
                   view.nodes[node.value()].status != cluster::NodeStatus::kRemoved;
  return may ? node : cluster::kNoNode;
}

}  // namespace

void LeaseGranter::OnElected(std::uint64_t now_ns, const cluster::View& view) {
  released_.clear();
  reassigned_.clear();
  lost_.clear();
  elected_ns_ = now_ns;
  elected_view_epoch_ = view.epoch;
}

void LeaseGranter::OnView(const cluster::View& before, const cluster::View& after) {
  for (std::size_t g = 0; g < before.groups.size(); ++g) {
    const cluster::GroupView& was = before.groups[g];
    const cluster::GroupView& is = after.groups[g];
    for (std::size_t shard = 0; shard < static_cast<std::size_t>(before.s); ++shard) {
      if (was.roles[shard] == cluster::kNoNode) continue;
      if (was.roles[shard] != is.roles[shard] || was.incarnations[shard] != is.incarnations[shard])
        lost_[was.roles[shard]] = after.epoch;
    }
  }
}

absl::Status LeaseGranter::CheckGrant(const cluster::View& view, NodeId node,
                                      const LeaseRenewal& renewal) const {
  if (node.value() >= view.nodes.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no lease: node ", node.value(), " is not known here yet"));
  }
  const cluster::NodeInfo& info = view.nodes[node.value()];
  if (info.incarnation != renewal.incarnation || info.status != cluster::NodeStatus::kUp) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no lease: node ", node.value(), " is ", cluster::StatusName(info.status),
        " with incarnation=", info.incarnation.value(), ", not ", renewal.incarnation.value()));
  }
  if (Reassigning(node) && !Mutant("L1-proposed")) {
    return absl::FailedPreconditionError(
        absl::StrCat("no lease: the roles of node ", node.value(), " are being given to others"));
  }
  // L9: it came back, and does not know yet what it lost meanwhile.
  const auto lost = lost_.find(node);
  const std::uint32_t needed = lost == lost_.end() ? elected_view_epoch_ : lost->second;
  if (renewal.view_epoch < needed && !Mutant("L9")) {
    return absl::FailedPreconditionError(absl::StrCat("no lease: node ", node.value(),
                                                      " knows view epoch=", renewal.view_epoch,
                                                      ", and lost roles at most by ", needed));
  }
  return absl::OkStatus();
}

NodeId LeaseGranter::TakesFrom(const cluster::ClusterCommand& command, const cluster::View& view) {
  if (!view.fail_over) return cluster::kNoNode;  // roles stay where they are
  if (const auto* fail = std::get_if<cluster::FailNode>(&command)) {
    return IfItMayServe(view, fail->node);
  }
  if (const auto* drain = std::get_if<cluster::DrainNode>(&command)) {
    return IfItMayServe(view, drain->node);
  }
  if (const auto* remove = std::get_if<cluster::RemoveNode>(&command)) {
    return IfItMayServe(view, remove->node);
  }
  if (const auto* start = std::get_if<cluster::RegisterNode>(&command)) {
    const cluster::NodeInfo* const known = view.FindNode(start->info.name);
    const bool restarts = known != nullptr && known->incarnation != Incarnation() &&
                          known->incarnation != start->info.incarnation;
    return restarts && !Mutant("L4-start") ? IfItMayServe(view, known->id) : cluster::kNoNode;
  }
  return cluster::kNoNode;
}

void LeaseGranter::End(NodeId node) {
  const auto found = reassigned_.find(node);
  if (found == reassigned_.end()) return;  // of a tenure that is over
  if (--found->second == 0) reassigned_.erase(found);
}

std::uint64_t LeaseGranter::OverNs(NodeId node) const {
  const auto released = released_.find(node);
  if (Mutant("L4-elected") && released == released_.end()) return 0;
  const std::uint64_t last_ns = released == released_.end() ? elected_ns_ : released->second;
  return Mutant("L1-wait") ? 0 : std::max(last_ns, elected_ns_) + wait_ns_;
}

}  // namespace ring::node
