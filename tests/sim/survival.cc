#include "tests/sim/survival.h"

#include <algorithm>
#include <bit>

#include "ring/cluster/active_roles.h"
#include "ring/cluster/role_return.h"
#include "ring/recovery/adoption.h"

namespace ring::sim {
namespace {

// One memgest of a shard's last record.
struct Named {
  RoleMask active = 0;
  RoleMask complete = 0;
};

Named NamedIn(const cluster::View& view, const cluster::NormalRecord& record, ShardId shard,
              const protocol::MemgestDescriptor& memgest) {
  if (const cluster::MemgestNormal* const set = record.Find(memgest.id); set != nullptr) {
    Named named{set->active, set->complete};
    for (const cluster::ActiveFrom& from : set->active_from) named.complete &= ~RoleBit(from.role);
    return named;
  }
  const RoleMask active = cluster::ActiveFor(record, memgest, shard, view.s, view.d);
  return {active, active};
}

RoleMask There(const cluster::NormalRecord& record, IsThere there) {
  RoleMask mask = 0;
  for (std::size_t role = 0; role < record.holders.size(); ++role) {
    if (there(record.holders[role])) mask |= RoleMask{1} << role;
  }
  return mask;
}

// Every acknowledged entry is at somebody's, and known to be.
bool EntriesSurvive(const protocol::MemgestDescriptor& memgest, const Named& named,
                    RoleMask there) {
  const int left = std::popcount(named.active & there);
  return left >= recovery::AnswersNeeded(memgest, named.active);
}

bool IsGone(const protocol::MemgestDescriptor& memgest) {
  return memgest.state == protocol::MemgestState::kDeleted;
}

// Blocks of each row that are left must be k; counted over all of the group, which is stricter.
bool BlocksSurvive(const cluster::View& view, const cluster::GroupView& group,
                   const protocol::MemgestDescriptor& memgest, IsThere there) {
  int missing = 0;
  RoleMask parities = ~RoleMask{0};
  for (int i = 0; i < view.s; ++i) {
    const ShardId shard(static_cast<std::uint16_t>(i));
    const cluster::NormalRecord& record = group.shards[shard.value()].normal;
    const RoleMask whole = NamedIn(view, record, shard, memgest).complete & There(record, there);
    missing += (whole >> i & 1) == 0 ? 1 : 0;
    parities &= whole;
  }
  for (int j = 0; j < memgest.m; ++j) missing += (parities >> (view.s + j) & 1) == 0 ? 1 : 0;
  return missing <= memgest.m;
}

// Nobody has all values of some replicated memgest, in the role in which they count.
bool LacksValues(const cluster::View& view, const cluster::GroupView& group, ShardId shard) {
  const cluster::NormalRecord& record = group.shards[shard.value()].normal;
  RoleMask same = 0;
  for (std::size_t x = 0; x < record.holders.size(); ++x) {
    if (record.holders[x] == cluster::Holder{group.roles[x], group.incarnations[x]})
      same |= RoleMask{1} << x;
  }
  return std::any_of(view.memgests.begin(), view.memgests.end(),
                     [&](const protocol::MemgestDescriptor& memgest) {
                       if (IsGone(memgest) || memgest.FailuresTolerated() == 0) return false;
                       return memgest.scheme == protocol::Scheme::kReplicated &&
                              (NamedIn(view, record, shard, memgest).complete & same) == 0;
                     });
}

}  // namespace

bool SurvivesWith(const cluster::View& view, IsThere there) {
  return SurvivesWith(view, there, [](const cluster::Holder&) { return false; });
}

bool SurvivesWith(const cluster::View& view, IsThere there, IsThere missed) {
  const RoleMask redundant = ((RoleMask{1} << view.d) - 1) << view.s;
  for (const cluster::GroupView& group : view.groups) {
    for (const protocol::MemgestDescriptor& memgest : view.memgests) {
      if (IsGone(memgest) || memgest.FailuresTolerated() == 0) continue;
      const bool replicated = memgest.scheme == protocol::Scheme::kReplicated;
      for (int i = 0; i < view.s; ++i) {
        const ShardId shard(static_cast<std::uint16_t>(i));
        const cluster::NormalRecord& record = group.shards[shard.value()].normal;
        if (record.epoch == Epoch()) return false;  // not even begun
        const Named named = NamedIn(view, record, shard, memgest);
        RoleMask here = There(record, there);
        if (replicated) here |= There(record, missed) & redundant;
        if (!EntriesSurvive(memgest, named, here)) return false;
        if (replicated && (named.complete & here) == 0) return false;
      }
      if (!replicated && !BlocksSurvive(view, group, memgest, there)) return false;
    }
  }
  return true;
}

bool StaysStopped(const cluster::View& view) {
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    const cluster::GroupView& group = view.groups[g];
    for (std::size_t i = 0; i < group.shards.size(); ++i) {
      const ShardId shard(static_cast<std::uint16_t>(i));
      if (group.shards[i].normal.epoch == group.epoch || !LacksValues(view, group, shard)) continue;
      bool goes_back = false;
      for (std::size_t x = 0; x < group.roles.size(); ++x) {
        goes_back |= cluster::CheckReturn(view, GroupId(static_cast<std::uint16_t>(g)), shard,
                                          Role(static_cast<std::uint16_t>(x)))
                         .ok();
      }
      if (!goes_back) return true;
    }
  }
  return false;
}

}  // namespace ring::sim
