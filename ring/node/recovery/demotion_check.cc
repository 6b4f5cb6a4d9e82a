#include "ring/node/recovery/demotion_check.h"

#include <algorithm>
#include <utility>

#include "ring/cluster/active_roles.h"

namespace ring::node {
namespace {

// Of a shard, the roles beside its coordinator's that keep values as they are.
std::uint32_t ReplicasOf(const cluster::View& view, ShardId shard) {
  std::uint32_t roles = 0;
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    const bool living = memgest.state != protocol::MemgestState::kDeleted;
    if (living && memgest.scheme == protocol::Scheme::kReplicated)
      roles |= cluster::MembersOf(memgest, shard, view.s, view.d);
  }
  return roles & ~(1u << shard.value());
}

bool LacksNothing(const DemotionCheck::Answer& answer) {
  return answer.ok() &&
         std::all_of(answer->begin(), answer->end(),
                     [](const recovery::ValuesToCome& values) { return values.absent == 0; });
}

}  // namespace

bool DemotionCheck::Look(const cluster::View& view, GroupId group, std::uint32_t roles,
                         std::uint64_t now_ns) {
  const Epoch epoch = view.groups[group.value()].epoch;
  if (round_ != nullptr) {
    if (round_->open > 0) return false;
    if (!round_->whole && !std::exchange(round_->counted, true)) ++refused_;
    const std::uint64_t counts_ns = round_->whole ? kFreshNs : kRetryNs;
    const bool same = round_->epoch == epoch && round_->roles == roles;
    if (same && now_ns - round_->begun_ns < counts_ns) return round_->whole;
  }
  round_ = std::make_shared<Round>();
  round_->epoch = epoch;
  round_->roles = roles;
  round_->begun_ns = now_ns;
  Begin(view, group);
  return round_->open == 0 && round_->whole;
}

void DemotionCheck::Begin(const cluster::View& view, GroupId id) {
  const cluster::GroupView& group = view.groups[id.value()];
  for (std::size_t i = 0; i < group.shards.size(); ++i) {
    const ShardId shard(static_cast<std::uint16_t>(i));
    const std::uint32_t replicas = ReplicasOf(view, shard) & ~round_->roles;
    for (std::size_t role = 0; role < group.roles.size(); ++role) {
      if ((replicas >> role & 1) == 0 || group.roles[role] == cluster::kNoNode) continue;
      ++round_->open;
      ask_(group.roles[role], {id, shard, group.epoch}, [round = round_](const Answer& answer) {
        round->whole &= LacksNothing(answer);
        --round->open;
      });
    }
  }
}

}  // namespace ring::node
