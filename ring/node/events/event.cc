#include "ring/node/events/event.h"

#include "ring/base/wire.h"

namespace ring::node {

absl::string_view EventName(EventKind kind) {
  switch (kind) {
    case EventKind::kLeads:
      return "leads";
    case EventKind::kRegistered:
      return "registered";
    case EventKind::kSuspected:
      return "suspected";
    case EventKind::kFailed:
      return "failed";
    case EventKind::kDraining:
      return "draining";
    case EventKind::kRemoved:
      return "removed";
    case EventKind::kEpochBegun:
      return "epoch-begun";
    case EventKind::kSealed:
      return "sealed";
    case EventKind::kFetched:
      return "fetched";
    case EventKind::kReappended:
      return "re-appended";
    case EventKind::kNormal:
      return "normal";
    case EventKind::kStopped:
      return "stopped";
    case EventKind::kFirstGet:
      return "first-get";
    case EventKind::kFirstPut:
      return "first-put";
    case EventKind::kValuesComplete:
      return "values-complete";
    case EventKind::kJoined:
      return "joined";
    case EventKind::kProtected:
      return "protected";
    case EventKind::kAdded:
      return "added";
    case EventKind::kMismatch:
      return "mismatch";
  }
  return "unknown";
}

std::string EncodeEvents(const NodeEvents& events) {
  ByteWriter out;
  out.Put(events.node.value());
  out.Put(events.incarnation.value());
  out.Put(events.unix_offset_ns);
  out.Put(static_cast<std::uint32_t>(events.events.size()));
  for (const Event& event : events.events) {
    out.Put(event.number);
    out.Put(event.time_ns);
    out.Put(static_cast<std::uint8_t>(event.kind));
    out.Put(event.group);
    out.Put(event.shard);
    out.Put(event.epoch.value());
    out.Put(event.subject.value());
  }
  return out.Take();
}

absl::StatusOr<NodeEvents> DecodeEvents(absl::string_view bytes) {
  ByteReader in(bytes);
  NodeEvents events;
  events.node = NodeId(in.Get<std::uint32_t>());
  events.incarnation = Incarnation(in.Get<std::uint64_t>());
  events.unix_offset_ns = in.Get<std::int64_t>();
  const auto count = in.Get<std::uint32_t>();
  bool known = true;
  for (std::uint32_t i = 0; i < count && in.ok() && known; ++i) {
    Event event;
    event.number = in.Get<std::uint64_t>();
    event.time_ns = in.Get<std::uint64_t>();
    const auto kind = in.Get<std::uint8_t>();
    known = kind >= 1 && kind <= kEventKindMax;
    event.kind = static_cast<EventKind>(kind);
    event.group = in.Get<std::uint16_t>();
    event.shard = in.Get<std::uint16_t>();
    event.epoch = Epoch(in.Get<std::uint32_t>());
    event.subject = NodeId(in.Get<std::uint32_t>());
    events.events.push_back(event);
  }
  if (!in.finished() || !known) {
    return absl::InvalidArgumentError("the events of a node are malformed");
  }
  return events;
}

}  // namespace ring::node
