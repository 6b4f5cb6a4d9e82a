#include "ring/node/events/event_log.h"

#include <algorithm>

namespace ring::node {

Event& EventLog::Next(EventKind kind) {
  Event& event = ring_[last_ % kCapacity];
  event = Event();
  event.number = ++last_;
  event.time_ns = clock_->NowNs();
  event.kind = kind;
  return event;
}

void EventLog::Add(EventKind kind, NodeId subject) { Next(kind).subject = subject; }

void EventLog::AddShard(EventKind kind, GroupId group, ShardId shard, Epoch epoch, NodeId subject) {
  Event& event = Next(kind);
  event.group = group.value();
  event.shard = shard.value();
  event.epoch = epoch;
  event.subject = subject;
}

std::vector<Event> EventLog::Since(std::uint64_t number) const {
  const std::uint64_t kept = last_ - std::min<std::uint64_t>(last_, kCapacity);
  std::vector<Event> events;
  for (std::uint64_t i = std::max(number, kept); i < last_; ++i) {
    events.push_back(ring_[i % kCapacity]);
  }
  return events;
}

}  // namespace ring::node
