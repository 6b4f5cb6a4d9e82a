#include "ring/cluster/active_roles.h"

#include <algorithm>

namespace ring::cluster {

using protocol::MemgestDescriptor;

RoleMask MembersOf(const MemgestDescriptor& memgest, ShardId shard, int s, int d) {
  return RoleMask{1} << shard.value() | memgest.MemberMask(shard, s, d);
}

RoleMask ActiveFor(const NormalRecord& normal, const MemgestDescriptor& memgest, ShardId shard,
                   int s, int d) {
  if (const MemgestNormal* const set = normal.Find(memgest.id); set != nullptr) return set->active;
  RoleMask counting = RoleMask{1} << shard.value();
  for (const MemgestNormal& other : normal.memgests) counting |= other.active;
  return counting & MembersOf(memgest, shard, s, d);
}

RoleMask CompleteFor(const NormalRecord& normal, const MemgestDescriptor& memgest, ShardId shard,
                     int s, int d) {
  const MemgestNormal* const set = normal.Find(memgest.id);
  return set != nullptr ? set->complete : ActiveFor(normal, memgest, shard, s, d);
}

int MembersMin(const MemgestDescriptor& memgest) {
  if (memgest.scheme == protocol::Scheme::kStretchedReedSolomon) {
    return 1 + std::max(1, memgest.m - 1);
  }
  if (memgest.commit == protocol::CommitRule::kAll) {
    return std::min<int>(memgest.r, std::max(2, memgest.r - 1));
  }
  return memgest.r / 2 + 1;
}

}  // namespace ring::cluster
