#include "ring/cluster/role_return.h"

#include "absl/strings/str_cat.h"
#include "ring/cluster/active_roles.h"
#include "ring/cluster/placement.h"

namespace ring::cluster {
namespace {

// By the record, its holder is who it was.
bool Counts(const GroupView& group, const NormalRecord& normal, std::size_t role) {
  return normal.epoch != Epoch() &&
         normal.holders[role] == Holder{group.roles[role], group.incarnations[role]};
}

// The former holder's own role, and what it holds now.
RoleMask GivingWay(const GroupView& group, const Holder& former, Role role) {
  RoleMask roles = RoleBit(role);
  for (std::size_t x = 0; x < group.roles.size(); ++x) {
    if (group.roles[x] == former.node) roles |= RoleMask{1} << x;
  }
  return roles;
}

// I2: what protects another shard by now is not taken from it, so that a further failure costs
// nothing there. That its coordinator is named with all values is no reason: whoever lost its role
// and got it back is named so, and has nothing.
absl::Status MayDoWithout(const View& view, const GroupView& group, std::size_t shard,
                          RoleMask giving_way) {
  const NormalRecord& normal = group.shards[shard].normal;
  if (Has(giving_way, shard) && Counts(group, normal, shard)) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", group.roles[shard].value(), " coordinates shard=", shard));
  }
  const ShardId id(static_cast<std::uint16_t>(shard));
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state == protocol::MemgestState::kDeleted || memgest.FailuresTolerated() == 0)
      continue;
    const RoleMask complete = CompleteFor(normal, memgest, id, view.s, view.d);
    for (std::size_t x = 0; x < group.roles.size(); ++x) {
      if (!Has(giving_way & complete, x) || !Counts(group, normal, x)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("node ", group.roles[x].value(), " has all values of shard=", shard));
    }
  }
  return absl::OkStatus();
}

// A role that nobody is left for makes its shard unavailable.
bool VacatesACoordinator(const View& view, GroupId id, ShardId shard, Role role) {
  View after = view;
  GiveBack(id, shard, role, &after);
  for (std::size_t x = 0; x < static_cast<std::size_t>(view.s); ++x) {
    if (view.groups[id.value()].roles[x] != kNoNode && after.groups[id.value()].roles[x] == kNoNode)
      return true;
  }
  return false;
}

}  // namespace

absl::Status CheckReturn(const View& view, GroupId id, ShardId shard, Role role) {
  const GroupView& group = view.groups[id.value()];
  const NormalRecord& normal = group.shards[shard.value()].normal;
  const std::string where =
      absl::StrCat("group=", id.value(), " shard=", shard.value(), " role=", role.value());
  if (role.value() >= group.roles.size()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": there is no such role"));
  }
  if (!view.fail_over) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": fail_over is off, roles stay"));
  }
  if (normal.epoch == Epoch() || normal.epoch == group.epoch) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": the shard has not stopped"));
  }
  const Holder& former = normal.holders[role.value()];
  if (Counts(group, normal, role.value()) || former.node == kNoNode) {
    return absl::FailedPreconditionError(absl::StrCat(where, ": nobody else held the role"));
  }
  const NodeInfo& node = view.nodes[former.node.value()];
  if (node.status != NodeStatus::kUp || node.incarnation != former.incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": node ", former.node.value(), " is not there as it was"));
  }
  for (std::size_t other = 0; other < group.shards.size(); ++other) {
    const absl::Status status = MayDoWithout(view, group, other, GivingWay(group, former, role));
    if (!status.ok())
      return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
  }
  if (VacatesACoordinator(view, id, shard, role)) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, ": no spare coordinates in place of node ", former.node.value()));
  }
  return absl::OkStatus();
}

void GiveBack(GroupId id, ShardId shard, Role role, View* view) {
  GroupView& group = view->groups[id.value()];
  const Holder former = group.shards[shard.value()].normal.holders[role.value()];
  const RoleMask giving_way = GivingWay(group, former, role);
  for (std::size_t x = 0; x < group.roles.size(); ++x) {
    if (!Has(giving_way, x)) continue;
    group.roles[x] = kNoNode;
    group.incarnations[x] = Incarnation();
  }
  group.roles[role.value()] = former.node;
  group.incarnations[role.value()] = former.incarnation;
  FillVacant(view);
}

}  // namespace ring::cluster
