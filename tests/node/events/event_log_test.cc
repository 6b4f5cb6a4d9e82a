#include "ring/node/events/event_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/events/fail_over.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HandClock final : public Clock {
 public:
  std::uint64_t NowNs() const override { return now_ns; }
  std::uint64_t now_ns = 1000;
};

TEST(EventLog, KeepsEventsInOrderWithTheirTimes) {
  HandClock clock;
  EventLog log(&clock);
  log.Add(EventKind::kFailed, NodeId(3));
  clock.now_ns = 2000;
  log.AddShard(EventKind::kSealed, GroupId(1), ShardId(2), Epoch(7));
  const std::vector<Event> events = log.Since(0);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].number, 1u);
  EXPECT_EQ(events[0].subject, NodeId(3));
  EXPECT_EQ(events[0].group, Event::kNoPlace);
  EXPECT_EQ(events[1].time_ns, 2000u);
  EXPECT_EQ(events[1].shard, 2u);
  EXPECT_EQ(events[1].epoch, Epoch(7));
}

TEST(EventLog, SinceGivesWhatWasNotSeen) {
  HandClock clock;
  EventLog log(&clock);
  for (int i = 0; i < 5; ++i) log.Add(EventKind::kLeads);
  EXPECT_EQ(log.Since(3).size(), 2u);
  EXPECT_EQ(log.Since(3).front().number, 4u);
  EXPECT_THAT(log.Since(5), IsEmpty());
  EXPECT_THAT(log.Since(99), IsEmpty());
}

TEST(EventLog, TheOldestGoFirst) {
  HandClock clock;
  EventLog log(&clock);
  for (std::size_t i = 0; i < EventLog::kCapacity + 10; ++i) log.Add(EventKind::kLeads);
  const std::vector<Event> events = log.Since(0);
  ASSERT_EQ(events.size(), EventLog::kCapacity);
  EXPECT_EQ(events.front().number, 11u);
  EXPECT_EQ(events.back().number, EventLog::kCapacity + 10);
}

NodeEvents SomeEvents() {
  NodeEvents events;
  events.node = NodeId(4);
  events.incarnation = Incarnation(77);
  events.unix_offset_ns = -5;
  for (int kind = 1; kind <= kEventKindMax; ++kind) {
    Event event;
    event.number = static_cast<std::uint64_t>(kind);
    event.time_ns = 100;
    event.kind = static_cast<EventKind>(kind);
    event.group = 1;
    event.shard = 2;
    event.epoch = Epoch(3);
    event.subject = NodeId(5);
    events.events.push_back(event);
  }
  return events;
}

TEST(NodeEvents, TravelWhole) {
  const NodeEvents events = SomeEvents();
  ASSERT_OK_AND_ASSIGN(const NodeEvents got, DecodeEvents(EncodeEvents(events)));
  EXPECT_EQ(got.node, events.node);
  EXPECT_EQ(got.incarnation, events.incarnation);
  EXPECT_EQ(got.unix_offset_ns, events.unix_offset_ns);
  EXPECT_EQ(got.events, events.events);
}

TEST(NodeEvents, EveryTruncationAndAnUnknownKindAreRefused) {
  const std::string bytes = EncodeEvents(SomeEvents());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeEvents(absl::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeEvents(bytes + "x").ok());
  NodeEvents events = SomeEvents();
  events.events[0].kind = static_cast<EventKind>(kEventKindMax + 1);
  EXPECT_THAT(DecodeEvents(EncodeEvents(events)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
}

TEST(NodeEvents, EveryKindHasAName) {
  for (int kind = 1; kind <= kEventKindMax; ++kind) {
    EXPECT_NE(EventName(static_cast<EventKind>(kind)), "unknown") << kind;
  }
}

Event At(std::uint64_t time_ns, EventKind kind, NodeId subject) {
  Event event;
  event.time_ns = time_ns;
  event.kind = kind;
  event.subject = subject;
  return event;
}

Event OfShard(std::uint64_t time_ns, EventKind kind, std::uint32_t epoch) {
  Event event = At(time_ns, kind, cluster::kNoNode);
  event.group = 1;
  event.shard = 2;
  event.epoch = Epoch(epoch);
  return event;
}

TEST(FailOver, PhasesBelongToTheFailureBeforeThem) {
  NodeEvents leader{NodeId(0), Incarnation(1), 1000, {}};
  leader.events = {At(10, EventKind::kSuspected, NodeId(2)), At(30, EventKind::kFailed, NodeId(2)),
                   At(500, EventKind::kFailed, NodeId(4))};
  NodeEvents spare{NodeId(5), Incarnation(1), 900, {}};  // its clock began later
  spare.events = {
      OfShard(50, EventKind::kNormal, 1),  // of the start: before any failure
      OfShard(140, EventKind::kEpochBegun, 2), OfShard(150, EventKind::kSealed, 2),
      OfShard(160, EventKind::kNormal, 2),     OfShard(170, EventKind::kNormal, 2),
      OfShard(900, EventKind::kEpochBegun, 3), OfShard(950, EventKind::kValuesComplete, 2)};
  const std::vector<NodeEvents> nodes = {leader, spare};
  const std::vector<FailOver> found = FindFailOvers(MergeEvents(nodes));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].subject, NodeId(2));
  EXPECT_EQ(found[0].suspected_ns, 1010);
  EXPECT_EQ(found[0].agreed_ns, 1030);
  ASSERT_EQ(found[0].shards.size(), 1u);
  const ShardFailOver& shard = found[0].shards[0];
  EXPECT_EQ(shard.epoch, Epoch(2));
  EXPECT_EQ(shard.node, NodeId(5));
  EXPECT_EQ(shard.at[static_cast<std::size_t>(EventKind::kNormal)], 1060);
  EXPECT_EQ(shard.at[static_cast<std::size_t>(EventKind::kValuesComplete)], 1850);
  EXPECT_EQ(shard.at[static_cast<std::size_t>(EventKind::kFirstGet)], std::nullopt);
  EXPECT_EQ(found[1].suspected_ns, std::nullopt);
  ASSERT_EQ(found[1].shards.size(), 1u);
  EXPECT_EQ(found[1].shards[0].epoch, Epoch(3));
}

// The leader may be the last to tell what it made the others agree upon.
TEST(FailOver, AnEpochThatBeginsBeforeTheLeaderTellsBelongsToWhoWasSuspected) {
  NodeEvents leader{NodeId(0), Incarnation(1), 0, {}};
  leader.events = {At(10, EventKind::kFailed, NodeId(3)), At(20, EventKind::kSuspected, NodeId(2)),
                   At(60, EventKind::kFailed, NodeId(2)), At(200, EventKind::kFailed, NodeId(4))};
  NodeEvents spare{NodeId(5), Incarnation(1), 0, {}};
  spare.events = {OfShard(15, EventKind::kEpochBegun, 2), OfShard(50, EventKind::kEpochBegun, 3),
                  OfShard(55, EventKind::kNormal, 3), OfShard(199, EventKind::kEpochBegun, 4)};
  const std::vector<FailOver> found = FindFailOvers(MergeEvents({leader, spare}));
  ASSERT_EQ(found.size(), 3u);
  ASSERT_EQ(found[0].shards.size(), 1u);
  EXPECT_EQ(found[0].shards[0].epoch, Epoch(2));
  ASSERT_EQ(found[1].shards.size(), 2u);
  EXPECT_EQ(found[1].shards[0].epoch, Epoch(3));
  EXPECT_EQ(found[1].shards[0].at[static_cast<std::size_t>(EventKind::kNormal)], 55);
  EXPECT_EQ(found[1].shards[1].epoch, Epoch(4)) << "nobody had suspected node 4";
  EXPECT_TRUE(found[2].shards.empty());
}

TEST(FailOver, ADrainIsOneWithoutASuspicion) {
  NodeEvents leader{NodeId(0), Incarnation(1), 0, {}};
  leader.events = {At(10, EventKind::kDraining, NodeId(2))};
  const std::vector<FailOver> found = FindFailOvers(MergeEvents({&leader, 1}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].drained);
}

}  // namespace
}  // namespace ring::node
