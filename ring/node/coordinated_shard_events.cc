// What a shard's way through an epoch looks like to operators: its events.
#include <algorithm>

#include "ring/cluster/active_roles.h"
#include "ring/node/coordinated_shard.h"

namespace ring::node {
namespace {

RoleMask ActiveRoles(const std::vector<cluster::MemgestNormal>& sets) {
  RoleMask roles = 0;
  for (const cluster::MemgestNormal& set : sets) roles |= set.active;
  return roles;
}

// What survives nothing has nothing to protect.
bool IsProtected(const recovery::EpochPlan& plan, const std::vector<cluster::MemgestNormal>& sets) {
  return std::all_of(
      plan.memgests.begin(), plan.memgests.end(), [&](const protocol::MemgestDescriptor& memgest) {
        if (memgest.FailuresTolerated() == 0) return true;
        return std::any_of(sets.begin(), sets.end(), [&](const cluster::MemgestNormal& set) {
          return set.id == memgest.id && set.active_from.empty() &&
                 set.complete == cluster::MembersOf(memgest, plan.shard, plan.s, plan.d);
        });
      });
}

}  // namespace

void CoordinatedShard::Tell(EventKind kind, NodeId subject) {
  context_->events->AddShard(kind, group_, shard_, group_view().epoch, subject);
}

void CoordinatedShard::Entered(recovery::EpochPhase phase) {
  using Phase = recovery::EpochPhase;
  if (phase == Phase::kFetching) Tell(EventKind::kSealed);
  if (phase == Phase::kConnecting) Tell(EventKind::kFetched);
  if (phase == Phase::kProposing) Tell(EventKind::kReappended);
  if (phase == Phase::kStopped) Tell(EventKind::kStopped);
  if (phase != Phase::kServing) return;
  Tell(EventKind::kNormal);
  if (!change_->plan().last.has_value()) return;  // the cluster starts: nobody waited
  watch_ = Watch();
  watch_.get = watch_.put = true;
  watch_.values = values_ != nullptr;
  watch_.gets = coordinator_->counters().gets;
  watch_.puts = coordinator_->counters().puts;
}

void CoordinatedShard::TellServed() {
  const coordinator::ShardCounters& counters = coordinator_->counters();
  if (watch_.get && counters.gets != watch_.gets) {
    watch_.get = false;
    Tell(EventKind::kFirstGet);
  }
  if (watch_.put && counters.puts != watch_.puts) {
    watch_.put = false;
    Tell(EventKind::kFirstPut);
  }
}

void CoordinatedShard::TellValues() {
  const auto& memgests = coordinator_->memgests();
  const bool away = std::any_of(memgests.begin(), memgests.end(),
                                [](const std::unique_ptr<memgest::Memgest>& memgest) {
                                  return memgest != nullptr && memgest->absent_count > 0;
                                });
  if (away) return;
  watch_.values = false;
  Tell(EventKind::kValuesComplete);
}

void CoordinatedShard::TellNamed(const std::vector<cluster::MemgestNormal>& sets) {
  const RoleMask named = ActiveRoles(sets);
  const RoleMask joined = watch_.active == 0 ? 0 : named & ~watch_.active;
  watch_.active = named;
  const recovery::EpochPlan& plan = change_->plan();
  for (std::size_t role = 0; role < plan.holders.size(); ++role) {
    if (Has(joined, role)) Tell(EventKind::kJoined, plan.holders[role].node);
  }
  const bool whole = IsProtected(plan, sets);
  if (whole && !watch_.whole) Tell(EventKind::kProtected);
  watch_.whole = whole;
}

}  // namespace ring::node
