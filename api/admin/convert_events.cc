// What happened to nodes and roles, as it travels in answers of the admin service.
#include <cstdint>

#include "api/admin/convert.h"
#include "api/admin/known_enum.h"

namespace ring::admin {
namespace {

std::uint16_t Place(bool present, std::uint32_t value) {
  return present ? static_cast<std::uint16_t>(value) : node::Event::kNoPlace;
}

v1::Event ToProto(const node::Event& event) {
  v1::Event out;
  out.set_number(event.number);
  out.set_time_ns(event.time_ns);
  out.set_kind(static_cast<v1::EventKind>(event.kind));
  if (event.group != node::Event::kNoPlace) out.set_group(event.group);
  if (event.shard != node::Event::kNoPlace) out.set_shard(event.shard);
  out.set_epoch(event.epoch.value());
  if (event.subject != cluster::kNoNode) out.set_subject(event.subject.value());
  return out;
}

node::Event FromProto(const v1::Event& event) {
  node::Event out;
  out.number = event.number();
  out.time_ns = event.time_ns();
  out.kind = Known<node::EventKind>(event.kind(), node::kEventKindMax);
  out.group = Place(event.has_group(), event.group());
  out.shard = Place(event.has_shard(), event.shard());
  out.epoch = Epoch(event.epoch());
  if (event.has_subject()) out.subject = NodeId(event.subject());
  return out;
}

}  // namespace

v1::NodeEvents ToProto(const node::NodeEvents& events) {
  v1::NodeEvents out;
  out.set_node(events.node.value());
  out.set_incarnation(events.incarnation.value());
  out.set_unix_offset_ns(events.unix_offset_ns);
  for (const node::Event& event : events.events) *out.add_events() = ToProto(event);
  return out;
}

node::NodeEvents FromProto(const v1::NodeEvents& events) {
  node::NodeEvents out;
  out.node = NodeId(events.node());
  out.incarnation = Incarnation(events.incarnation());
  out.unix_offset_ns = events.unix_offset_ns();
  for (const v1::Event& event : events.events()) out.events.push_back(FromProto(event));
  return out;
}

}  // namespace ring::admin
