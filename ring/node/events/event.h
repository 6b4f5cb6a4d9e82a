// ring/node/events/event.h — what happened to roles, and when: what operators see of fail-overs.
//
// What:      Event: one step of a fail-over, a join, a change of nodes. NodeEvents: what a node
//            answers who asks for its events; it travels as a control message.
// Shape:     an event is a fixed record; numbers are dense on one start of a node.
// Units:     nanoseconds of the node's clock.
// Ownership: values.
// Threads:   pure.
// Errors:    DecodeEvents: kInvalidArgument.
// Source:    the steps of an epoch change; Ring figure 12 (recovery by phase).
#ifndef RING_NODE_EVENTS_EVENT_H_
#define RING_NODE_EVENTS_EVENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/cluster/view.h"

namespace ring::node {

// Travels: never renumber.
enum class EventKind : std::uint8_t {
  kLeads = 1,            // this node leads the consensus
  kRegistered = 2,       // the subject: a start of it is known to the cluster
  kSuspected = 3,        // the subject was silent for too long: its failure is proposed
  kFailed = 4,           // that was agreed upon
  kDraining = 5,         // the subject gives its roles away
  kRemoved = 6,          // the subject is no part of the cluster any more
  kEpochBegun = 7,       // from here on a shard's coordinator, in the named epoch
  kSealed = 8,           // who survived promised the epoch; the longest logs are adopted
  kFetched = 9,          // metadata is here
  kReappended = 10,      // who goes on has all entries
  kNormal = 11,          // the record is applied: the shard serves
  kStopped = 12,         // too little survived (E8)
  kFirstGet = 13,        // answered in this epoch
  kFirstPut = 14,        // committed and answered in this epoch
  kValuesComplete = 15,  // no value is away any more
  kJoined = 16,          // the subject counts as a member from here on (L7)
  kProtected = 17,       // all members of all memgests have everything
  kAdded = 18,           // the subject is a part of the cluster, and comes when it is started
  kMismatch = 19,        // a scrub in idle time found what differs; the node's log says what
};
inline constexpr int kEventKindMax = 19;

absl::string_view EventName(EventKind kind);

struct Event {
  static constexpr std::uint16_t kNoPlace = 0xffff;
  std::uint64_t number = 0;  // from 1 on, dense on a node
  std::uint64_t time_ns = 0;
  EventKind kind = EventKind::kLeads;
  std::uint16_t group = kNoPlace;  // of a shard's events
  std::uint16_t shard = kNoPlace;
  Epoch epoch;
  NodeId subject = cluster::kNoNode;  // whom it happened to, if not to this node
  friend bool operator==(const Event&, const Event&) = default;
};

// What a node answers.
struct NodeEvents {
  NodeId node;
  Incarnation incarnation;
  // What to add to an event's time for nanoseconds since 1970; hosts' clocks differ.
  std::int64_t unix_offset_ns = 0;
  std::vector<Event> events;
};

std::string EncodeEvents(const NodeEvents& events);
absl::StatusOr<NodeEvents> DecodeEvents(absl::string_view bytes);

}  // namespace ring::node

#endif  // RING_NODE_EVENTS_EVENT_H_
