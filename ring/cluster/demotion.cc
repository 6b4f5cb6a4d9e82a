#include "ring/cluster/demotion.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "ring/cluster/active_roles.h"

namespace ring::cluster {
namespace {

using protocol::MemgestDescriptor;

absl::Status CheckMemgest(const View& view, const NormalRecord& normal, ShardId shard,
                          const MemgestDescriptor& memgest, RoleMask roles) {
  const RoleMask members = MembersOf(memgest, shard, view.s, view.d);
  const RoleMask others = members & ~roles;
  const MemgestNormal* const set = normal.Find(memgest.id);
  const RoleMask complete = CompleteFor(normal, memgest, shard, view.s, view.d);
  const bool whole = (complete & others) == others && (set == nullptr || !set->lost);
  if (!whole) {
    return absl::FailedPreconditionError(
        absl::StrCat("memgest ", memgest.name, " is not protected without it: wait"));
  }
  if (others == members || std::popcount(others) >= MembersMin(memgest)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("memgest ", memgest.name, " cannot do without it"));
}

}  // namespace

absl::Status CheckDemotion(const View& view, GroupId id, RoleMask roles) {
  const GroupView& group = view.groups[id.value()];
  const std::string where = absl::StrCat("group=", id.value(), " demoted=", roles);
  const RoleMask redundant = ((RoleMask{1} << view.d) - 1) << view.s;
  if (roles == 0 || (roles & ~redundant) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, " are not roles of redundant nodes"));
  }
  for (std::size_t x = 0; x < group.roles.size(); ++x) {
    if (!Has(roles, x) || group.roles[x] != kNoNode) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, " names roles without a holder"));
  }
  for (std::size_t i = 0; i < group.shards.size(); ++i) {
    const NormalRecord& normal = group.shards[i].normal;
    if (normal.epoch != group.epoch) {
      return absl::FailedPreconditionError(
          absl::StrCat(where, ": shard=", i, " does not serve in this epoch yet"));
    }
    for (const MemgestDescriptor& memgest : view.memgests) {
      if (memgest.state == protocol::MemgestState::kDeleted) continue;
      const absl::Status status =
          CheckMemgest(view, normal, ShardId(static_cast<std::uint16_t>(i)), memgest, roles);
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat(where, " shard=", i, ": ", status.message()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ring::cluster
