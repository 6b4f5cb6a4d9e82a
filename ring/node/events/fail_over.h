// ring/node/events/fail_over.h — a fail-over by its phases, out of the events of a cluster.
//
// What:      MergeEvents puts the events of all nodes into the order of their times. FindFailOvers
//            gives, for each failure or drain, the shards that went into another epoch behind it
//            and when each phase was reached there.
// Shape:     an epoch belongs to the last failure before it, or to one that was suspected before it
//            and told of behind it; what superseded it, to the same.
// Units:     nanoseconds since 1970, by each node's wall clock: across hosts, as good as their
//            clocks agree.
// Ownership: values.
// Threads:   pure.
// Errors:    none.
// Source:    Ring figure 12; aim P8 (docs/BENCHMARKS.md).
#ifndef RING_NODE_EVENTS_FAIL_OVER_H_
#define RING_NODE_EVENTS_FAIL_OVER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "ring/node/events/event.h"

namespace ring::node {

struct ClusterEvent {
  std::int64_t unix_ns = 0;
  NodeId node;  // that tells it
  Event event;
};

struct ShardFailOver {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  NodeId node;  // coordinates it from here on
  // When the event happened first in this epoch.
  std::array<std::optional<std::int64_t>, kEventKindMax + 1> at;
};

struct FailOver {
  NodeId subject;
  bool drained = false;  // by an operator, who was not surprised
  std::optional<std::int64_t> suspected_ns;
  std::int64_t agreed_ns = 0;
  std::vector<ShardFailOver> shards;  // in the order in which they began
};

std::vector<ClusterEvent> MergeEvents(absl::Span<const NodeEvents> nodes);
// REQUIRES: in order, as MergeEvents gives them.
std::vector<FailOver> FindFailOvers(absl::Span<const ClusterEvent> events);

}  // namespace ring::node

#endif  // RING_NODE_EVENTS_FAIL_OVER_H_
