#include "tests/sim/survival.h"

#include <algorithm>
#include <bit>

#include "ring/cluster/active_roles.h"
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

RoleMask There(const cluster::NormalRecord& record,
               absl::FunctionRef<bool(const cluster::Holder&)> there) {
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
                   const protocol::MemgestDescriptor& memgest,
                   absl::FunctionRef<bool(const cluster::Holder&)> there) {
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

}  // namespace

bool SurvivesWith(const cluster::View& view,
                  absl::FunctionRef<bool(const cluster::Holder&)> there) {
  for (const cluster::GroupView& group : view.groups) {
    for (const protocol::MemgestDescriptor& memgest : view.memgests) {
      if (IsGone(memgest) || memgest.FailuresTolerated() == 0) continue;
      for (int i = 0; i < view.s; ++i) {
        const ShardId shard(static_cast<std::uint16_t>(i));
        const cluster::NormalRecord& record = group.shards[shard.value()].normal;
        if (record.epoch == Epoch()) return false;  // not even begun
        const Named named = NamedIn(view, record, shard, memgest);
        const RoleMask here = There(record, there);
        if (!EntriesSurvive(memgest, named, here)) return false;
        const bool replicated = memgest.scheme == protocol::Scheme::kReplicated;
        if (replicated && (named.complete & here) == 0) return false;
      }
      const bool coded = memgest.scheme != protocol::Scheme::kReplicated;
      if (coded && !BlocksSurvive(view, group, memgest, there)) return false;
    }
  }
  return true;
}

}  // namespace ring::sim
