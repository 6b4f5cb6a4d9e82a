#include "tests/sim/aim.h"

#include <memory>

#include "absl/strings/str_cat.h"

namespace ring::sim {

Aim::Aim(SimCluster* cluster) : cluster_(cluster), random_(cluster->seed() ^ 0xa1e) {
  using node::EventKind;
  constexpr EventKind kKinds[] = {
      EventKind::kEpochBegun, EventKind::kSealed, EventKind::kFetched,
      EventKind::kReappended, EventKind::kNormal, EventKind::kFirstGet,
      EventKind::kFirstPut,   EventKind::kJoined, EventKind::kValuesComplete};
  kind_ = kKinds[random_.Below(std::size(kKinds))];
  whom_ = static_cast<Whom>(random_.Below(3));
  cluster->Note(absl::StrCat("blows aim at ", node::EventName(kind_)));
}

std::optional<NodeId> Aim::Look() {
  std::optional<NodeId> victim;
  seen_.resize(cluster_->nodes().size());
  for (const std::shared_ptr<SimNode>& node : cluster_->nodes()) {
    if (!node->up()) continue;
    const NodeId id = node->info().id;
    Seen& seen = seen_[id.value()];
    if (seen.incarnation != node->info().incarnation) seen = {node->info().incarnation, 0};
    for (const node::Event& event : node->node().events().Since(seen.number)) {
      seen.number = event.number;
      if (event.kind == kind_ && event.group != node::Event::kNoPlace) victim = VictimOf(event, id);
    }
  }
  return victim;
}

NodeId Aim::VictimOf(const node::Event& event, NodeId teller) {
  if (whom_ == Whom::kTeller) return teller;
  if (whom_ == Whom::kSubject && event.subject != cluster::kNoNode) return event.subject;
  const std::vector<NodeId>& roles = cluster_->view().groups[event.group].roles;
  const NodeId other = roles[random_.Below(roles.size())];
  return other == cluster::kNoNode ? teller : other;
}

}  // namespace ring::sim
