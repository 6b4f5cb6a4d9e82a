// Epochs of a group, and the Normal records of its shards.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/cluster/active_roles.h"
#include "ring/cluster/cluster_state.h"
#include "ring/cluster/demotion.h"
#include "ring/cluster/placement.h"
#include "ring/cluster/role_return.h"

namespace ring::cluster {
namespace {

absl::Status CheckGroup(const View& view, GroupId group) {
  if (group.value() < view.groups.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no such group=", group.value()));
}

absl::Status CheckShard(const View& view, GroupId group, ShardId shard) {
  RING_RETURN_IF_ERROR(CheckGroup(view, group));
  if (shard.value() < view.s) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no such shard group=", group.value(), " shard=", shard.value()));
}

absl::Status CheckEpoch(const View& view, GroupId group, Epoch epoch) {
  const Epoch present = view.groups[group.value()].epoch;
  if (present == epoch || Mutant("step1")) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "group=", group.value(), " is in epoch=", present.value(), ", not ", epoch.value()));
}

// For the refusal of one memgest's part of a Normal record.
absl::Status Wrong(const SetNormal& command, MemgestId memgest, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("normal group=", command.group.value(), " shard=", command.shard.value(),
                   " epoch=", command.epoch.value(), " memgest=", memgest.value(), ": ", what));
}

RoleMask HeldRoles(const GroupView& group) {
  RoleMask mask = 0;
  for (std::size_t x = 0; x < group.roles.size(); ++x) {
    if (group.roles[x] != kNoNode) mask |= RoleMask{1} << x;
  }
  return mask;
}

absl::Status CheckMemgest(const View& view, const SetNormal& command, const MemgestNormal& one) {
  const GroupView& group = view.groups[command.group.value()];
  const ShardView& shard = group.shards[command.shard.value()];
  const protocol::MemgestDescriptor* memgest = view.FindMemgest(one.id);
  if (memgest == nullptr) return Wrong(command, one.id, "is not known");
  const RoleMask allowed = MembersOf(*memgest, command.shard, view.s, view.d) & HeldRoles(group);
  if ((one.active & ~allowed) != 0 || (one.complete & ~one.active) != 0) {
    return Wrong(command, one.id,
                 absl::StrCat("active=", one.active, " complete=", one.complete,
                              ": of the roles with a holder it uses ", allowed));
  }
  if ((one.active >> command.shard.value() & 1) == 0) {
    return Wrong(command, one.id, "its coordinator is not active");
  }
  const bool accepted = view.overrun == OverrunPolicy::kContinue ||
                        (shard.overrun_epoch == command.epoch &&
                         std::binary_search(shard.overrun.begin(), shard.overrun.end(), one.id));
  if (one.lost && !accepted && !Mutant("E8-record")) {  // E8
    return Wrong(command, one.id, "its losses were not accepted: the shard must stop");
  }
  return absl::OkStatus();
}

const std::uint64_t* FromExtent(const MemgestNormal& memgest, Role role) {
  for (const ActiveFrom& from : memgest.active_from) {
    if (from.role == role) return &from.extent;
  }
  return nullptr;
}

// L7: within an epoch a later record names more, and takes nothing back.
absl::Status CheckFollows(const View& view, const SetNormal& command, const NormalRecord& last) {
  for (const MemgestNormal& old : last.memgests) {
    const auto found = std::find_if(command.memgests.begin(), command.memgests.end(),
                                    [&old](const MemgestNormal& one) { return one.id == old.id; });
    if (found == command.memgests.end()) {
      if (view.FindMemgest(old.id)->state == protocol::MemgestState::kDeleted) continue;
      return Wrong(command, old.id, "is missing");
    }
    if ((old.active & ~found->active) != 0 || (old.complete & ~found->complete) != 0) {
      return Wrong(
          command, old.id,
          absl::StrCat("active=", found->active, " complete=", found->complete,
                       " take back roles of active=", old.active, " complete=", old.complete));
    }
    if (old.lost != found->lost || old.records_lost != found->records_lost)
      return Wrong(command, old.id, "lost changes within an epoch");
    for (const ActiveFrom& from : found->active_from) {
      if (from.role.value() >= view.group_count()) continue;     // View::Validate refuses it
      if ((old.active >> from.role.value() & 1) == 0) continue;  // it joins with this record
      const std::uint64_t* const before = FromExtent(old, from.role);
      if (before == nullptr || *before < from.extent) {
        return Wrong(command, old.id,
                     absl::StrCat("role=", from.role.value(), " counted from an earlier extent"));
      }
    }
  }
  return absl::OkStatus();
}

// E8: who has the values that were promised to be kept would drop them with a record that does
// without.
absl::Status CheckValues(const View& view, const SetNormal& command, const MemgestNormal& one,
                         const NormalRecord& last) {
  const protocol::MemgestDescriptor& memgest = *view.FindMemgest(one.id);
  const bool promised = last.epoch != Epoch() && memgest.FailuresTolerated() > 0 &&
                        memgest.state != protocol::MemgestState::kDeleted;
  if (!promised || one.complete != 0 || one.lost || Mutant("E8-values")) return absl::OkStatus();
  const RoleMask before = CompleteFor(last, memgest, command.shard, view.s, view.d);
  if (before == 0) return absl::OkStatus();
  return Wrong(command, one.id,
               absl::StrCat("names nobody with all values, complete=", before,
                            " had them: the shard must stop"));
}

// V2: a shard serves nothing until every memgest was sealed and adopted. E5: who was demoted begins
// as a learner.
absl::Status CheckFirst(const View& view, const SetNormal& command, const NormalRecord& last) {
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state != protocol::MemgestState::kActive &&
        memgest.state != protocol::MemgestState::kDraining)
      continue;
    const bool named =
        std::any_of(command.memgests.begin(), command.memgests.end(),
                    [&memgest](const MemgestNormal& one) { return one.id == memgest.id; });
    if (!named && !Mutant("V2-record")) return Wrong(command, memgest.id, "is missing");
  }
  const RoleMask demoted = view.groups[command.group.value()].demoted;
  for (const MemgestNormal& one : command.memgests) {
    if ((one.active & demoted) != 0) return Wrong(command, one.id, "names a demoted role");
    RING_RETURN_IF_ERROR(CheckValues(view, command, one, last));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ClusterState::Execute(const NewEpoch& command, Draft* draft) const {
  RING_RETURN_IF_ERROR(CheckGroup(draft->view, command.group));
  RING_RETURN_IF_ERROR(CheckEpoch(draft->view, command.group, command.expected));
  GroupView& group = draft->view.groups[command.group.value()];
  if (command.demoted != 0) {
    RING_RETURN_IF_ERROR(CheckDemotion(draft->view, command.group, command.demoted));
  }
  RING_RETURN_IF_ERROR(RaiseEpoch(command.group, &draft->view));
  group.demoted = command.demoted;
  return absl::OkStatus();
}

absl::Status ClusterState::Execute(const SetNormal& command, Draft* draft) const {
  RING_RETURN_IF_ERROR(CheckShard(draft->view, command.group, command.shard));
  RING_RETURN_IF_ERROR(CheckEpoch(draft->view, command.group, command.epoch));
  for (const MemgestNormal& one : command.memgests) {
    RING_RETURN_IF_ERROR(CheckMemgest(draft->view, command, one));
  }
  GroupView& group = draft->view.groups[command.group.value()];
  NormalRecord& normal = group.shards[command.shard.value()].normal;
  if (normal.epoch == command.epoch) {
    RING_RETURN_IF_ERROR(CheckFollows(draft->view, command, normal));
  } else {
    RING_RETURN_IF_ERROR(CheckFirst(draft->view, command, normal));
  }
  normal.epoch = command.epoch;
  normal.memgests = command.memgests;
  normal.holders.clear();
  for (std::size_t x = 0; x < group.roles.size(); ++x) {
    normal.holders.push_back({group.roles[x], group.incarnations[x]});
  }
  return absl::OkStatus();
}

absl::Status ClusterState::Execute(const ReturnRole& command, Draft* draft) const {
  RING_RETURN_IF_ERROR(CheckShard(draft->view, command.group, command.shard));
  RING_RETURN_IF_ERROR(CheckEpoch(draft->view, command.group, command.expected));
  RING_RETURN_IF_ERROR(CheckReturn(draft->view, command.group, command.shard, command.role));
  GiveBack(command.group, command.shard, command.role, &draft->view);
  return RaiseEpochs(*view_, &draft->view);
}

absl::Status ClusterState::Execute(const Overrun& command, Draft* draft) const {
  RING_RETURN_IF_ERROR(CheckShard(draft->view, command.group, command.shard));
  RING_RETURN_IF_ERROR(CheckEpoch(draft->view, command.group, command.epoch));
  ShardView& shard = draft->view.groups[command.group.value()].shards[command.shard.value()];
  if (shard.normal.epoch == command.epoch) {
    return absl::FailedPreconditionError(absl::StrCat(
        "group=", command.group.value(), " shard=", command.shard.value(), " serves already"));
  }
  std::vector<MemgestId> memgests = shard.overrun;
  for (const MemgestId memgest : command.memgests) {
    if (draft->view.FindMemgest(memgest) == nullptr) {
      return absl::NotFoundError(absl::StrCat("memgest=", memgest.value(), " is not known"));
    }
    memgests.push_back(memgest);
  }
  if (memgests.empty()) return absl::InvalidArgumentError("overrun names no memgest");
  std::sort(memgests.begin(), memgests.end());
  memgests.erase(std::unique(memgests.begin(), memgests.end()), memgests.end());
  shard.overrun = std::move(memgests);
  shard.overrun_epoch = command.epoch;
  return absl::OkStatus();
}

}  // namespace ring::cluster
