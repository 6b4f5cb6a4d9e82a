#include "ring/node/events/fail_over.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ring::node {
namespace {

ShardFailOver* Find(FailOver* fail_over, const ClusterEvent& one) {
  for (ShardFailOver& shard : fail_over->shards) {
    if (shard.group.value() == one.event.group && shard.shard.value() == one.event.shard &&
        shard.epoch == one.event.epoch && shard.node == one.node)
      return &shard;
  }
  return nullptr;
}

// The last one that was agreed upon before; or the next one, if it was suspected before: others may
// act upon what is agreed before the leader tells of it. Null: none.
FailOver* CauseOf(std::int64_t begun_ns, std::vector<FailOver>* fail_overs) {
  FailOver* cause = nullptr;
  for (FailOver& one : *fail_overs) {
    const bool agreed = one.agreed_ns <= begun_ns;
    if (agreed || one.suspected_ns.value_or(one.agreed_ns) <= begun_ns) cause = &one;
    if (!agreed) break;
  }
  return cause;
}

void AddShardEvent(const ClusterEvent& one, std::vector<FailOver>* fail_overs) {
  const auto kind = static_cast<std::size_t>(one.event.kind);
  if (one.event.kind == EventKind::kEpochBegun) {
    FailOver* const cause = CauseOf(one.unix_ns, fail_overs);
    if (cause == nullptr) return;
    ShardFailOver shard;
    shard.group = GroupId(one.event.group);
    shard.shard = ShardId(one.event.shard);
    shard.epoch = one.event.epoch;
    shard.node = one.node;
    shard.at[kind] = one.unix_ns;
    cause->shards.push_back(shard);
    return;
  }
  // Values may come and members join long after the next failure.
  for (auto fail_over = fail_overs->rbegin(); fail_over != fail_overs->rend(); ++fail_over) {
    ShardFailOver* const shard = Find(&*fail_over, one);
    if (shard == nullptr) continue;
    if (!shard->at[kind].has_value()) shard->at[kind] = one.unix_ns;
    return;
  }
}

}  // namespace

std::vector<ClusterEvent> MergeEvents(absl::Span<const NodeEvents> nodes) {
  std::vector<ClusterEvent> merged;
  for (const NodeEvents& node : nodes) {
    for (const Event& event : node.events) {
      merged.push_back(
          {static_cast<std::int64_t>(event.time_ns) + node.unix_offset_ns, node.node, event});
    }
  }
  std::stable_sort(merged.begin(), merged.end(), [](const ClusterEvent& a, const ClusterEvent& b) {
    return std::tie(a.unix_ns, a.node) < std::tie(b.unix_ns, b.node);
  });
  return merged;
}

std::vector<FailOver> FindFailOvers(absl::Span<const ClusterEvent> events) {
  std::vector<FailOver> fail_overs;
  std::map<NodeId, std::int64_t> suspected;
  for (const ClusterEvent& one : events) {
    const EventKind kind = one.event.kind;
    if (kind == EventKind::kSuspected) {
      suspected.emplace(one.event.subject, one.unix_ns);
    } else if (kind == EventKind::kFailed || kind == EventKind::kDraining) {
      FailOver fail_over;
      fail_over.subject = one.event.subject;
      fail_over.drained = kind == EventKind::kDraining;
      fail_over.agreed_ns = one.unix_ns;
      const auto found = suspected.find(one.event.subject);
      if (found != suspected.end()) {
        if (!fail_over.drained) fail_over.suspected_ns = found->second;
        suspected.erase(found);
      }
      fail_overs.push_back(std::move(fail_over));
    }
  }
  for (const ClusterEvent& one : events) {
    if (one.event.group != Event::kNoPlace) AddShardEvent(one, &fail_overs);
  }
  return fail_overs;
}

}  // namespace ring::node
