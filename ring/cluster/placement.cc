#include "ring/cluster/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"

namespace ring::cluster {
namespace {

bool HoldersDiffer(const GroupView& before, const GroupView& after) {
  if (before.roles != after.roles) return true;
  const bool normal =
      std::any_of(before.shards.begin(), before.shards.end(),
                  [](const ShardView& shard) { return shard.normal.epoch.value() != 0; });
  for (std::size_t x = 0; x < before.roles.size(); ++x) {
    const bool first_heard = before.incarnations[x].value() == 0 && !normal;
    if (before.incarnations[x] != after.incarnations[x] && !first_heard) return true;
  }
  return false;
}

// The vacant role that the node held when a shard of the group was Normal last: what it has counts
// in that role alone. Else the lowest one. The number of roles: none is vacant.
std::size_t RoleToFill(const GroupView& group, const NodeInfo& node) {
  const Holder holder{node.id, node.incarnation};
  const auto lowest = std::find(group.roles.begin(), group.roles.end(), kNoNode);
  auto role = static_cast<std::size_t>(lowest - group.roles.begin());
  Epoch latest;
  for (const ShardView& shard : group.shards) {
    const std::vector<Holder>& holders = shard.normal.holders;
    const auto held = std::find(holders.begin(), holders.end(), holder);
    if (held == holders.end() || shard.normal.epoch <= latest) continue;
    const auto former = static_cast<std::size_t>(held - holders.begin());
    if (group.roles[former] != kNoNode) continue;
    latest = shard.normal.epoch;
    role = former;
  }
  return role;
}

}  // namespace

void Vacate(View* view, NodeId node) {
  for (GroupView& group : view->groups) {
    for (std::size_t x = 0; x < group.roles.size(); ++x) {
      if (group.roles[x] != node) continue;
      group.roles[x] = kNoNode;
      group.incarnations[x] = Incarnation();
    }
  }
}

void FillVacant(View* view) {
  for (const NodeInfo& node : view->nodes) {
    if (node.status != NodeStatus::kUp || node.incarnation.value() == 0) continue;
    for (GroupView& group : view->groups) {
      const bool member =
          std::find(group.roles.begin(), group.roles.end(), node.id) != group.roles.end();
      if (member && !Mutant("L10-spare")) continue;
      const std::size_t role = RoleToFill(group, node);
      if (role == group.roles.size()) continue;
      group.roles[role] = node.id;
      group.incarnations[role] = node.incarnation;
    }
  }
}

int VacantCount(const View& view) {
  int count = 0;
  for (const GroupView& group : view.groups) {
    count += static_cast<int>(std::count(group.roles.begin(), group.roles.end(), kNoNode));
  }
  return count;
}

absl::Status RaiseEpoch(GroupId id, View* view) {
  GroupView& group = view->groups[id.value()];
  if (group.epoch.value() >= kEpochMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("group=", id.value(), " used up its epochs: epoch=", group.epoch.value()));
  }
  group.epoch = Epoch(group.epoch.value() + 1);
  group.demoted = 0;
  for (ShardView& shard : group.shards) {
    shard.overrun_epoch = Epoch();
    shard.overrun.clear();
  }
  return absl::OkStatus();
}

absl::Status RaiseEpochs(const View& before, View* after) {
  for (std::size_t g = 0; g < after->groups.size(); ++g) {
    if (!HoldersDiffer(before.groups[g], after->groups[g])) continue;
    const absl::Status status = RaiseEpoch(GroupId(static_cast<std::uint16_t>(g)), after);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace ring::cluster
