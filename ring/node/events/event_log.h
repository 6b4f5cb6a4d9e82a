// ring/node/events/event_log.h — the last events of a node.
//
// What:      EventLog keeps the last kCapacity events in their order, numbered. Who asks again
//            names the number it has seen (Since), so that nothing is told twice.
// Shape:     the ring is made once.
// Ownership: values.
// Threads:   thread-compatible; the node's.
// Errors:    none.
// Cost:      Add: one store, no allocation. Nothing is added per put or get.
#ifndef RING_NODE_EVENTS_EVENT_LOG_H_
#define RING_NODE_EVENTS_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ring/base/clock.h"
#include "ring/node/events/event.h"

namespace ring::node {

class EventLog {
 public:
  static constexpr std::size_t kCapacity = 4096;

  explicit EventLog(const Clock* clock) : clock_(clock), ring_(kCapacity) {}

  void Add(EventKind kind, NodeId subject = cluster::kNoNode);
  void AddShard(EventKind kind, GroupId group, ShardId shard, Epoch epoch,
                NodeId subject = cluster::kNoNode);
  // Those that are kept with a higher number, in order.
  std::vector<Event> Since(std::uint64_t number) const;
  std::uint64_t now_ns() const { return clock_->NowNs(); }

 private:
  Event& Next(EventKind kind);

  const Clock* clock_;
  std::vector<Event> ring_;
  std::uint64_t last_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_EVENTS_EVENT_LOG_H_
