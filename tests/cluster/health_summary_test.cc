#include "ring/cluster/health_summary.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kKeys = 10;
constexpr NodeId kLeader{0};

// Five nodes with roles, a spare; REP3 (id 1) and SRS32 (id 2) in 15 shards of ten keys each.
class HealthSummary : public ::testing::Test {
 protected:
  HealthSummary() : view_(TestView()) {
    view_.voter_count = 5;
    view_.fail_over = true;
    for (NodeInfo& node : view_.nodes) node.incarnation = Incarnation(1);
    for (std::uint32_t n = 0; n < view_.nodes.size(); ++n) {
      NodeHealth report;
      report.node = NodeId(n);
      reports_.push_back(report);
    }
    for (std::size_t g = 0; g < view_.groups.size(); ++g) {
      for (std::size_t i = 0; i < 3; ++i) AddShard(g, i);
    }
  }

  void AddShard(std::size_t g, std::size_t i) {
    ShardReport shard;
    shard.group = GroupId(static_cast<std::uint16_t>(g));
    shard.shard = ShardId(static_cast<std::uint16_t>(i));
    shard.epoch = view_.groups[g].epoch;
    shard.serving = true;
    const std::uint32_t all = 1u << i | 0b11000;  // both schemes use roles 3 and 4
    shard.sets = {{MemgestId(1), all, all, false, {}}, {MemgestId(2), all, all, false, {}}};
    shard.counts = {{MemgestId(1), kKeys, kKeys, 0, 0}, {MemgestId(2), kKeys, kKeys, 0, 0}};
    reports_[view_.groups[g].roles[i].value()].shards.push_back(shard);
  }
  ShardReport& Report(std::size_t g, std::size_t i) {
    for (ShardReport& shard : reports_[view_.groups[g].roles[i].value()].shards) {
      if (shard.group.value() == g && shard.shard.value() == i) return shard;
    }
    ADD_FAILURE() << "no shard " << i << " of group " << g;
    return reports_[0].shards[0];
  }
  Health Sum() const { return Summarize(view_, kLeader, reports_); }

  View view_;
  std::vector<NodeHealth> reports_;
};

TEST_F(HealthSummary, EverythingInPlaceIsProtected) {
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kOk);
  EXPECT_THAT(health.shards, IsEmpty());
  EXPECT_THAT(health.warnings, IsEmpty());
  ASSERT_EQ(health.memgests.size(), 2u);
  const MemgestHealth& srs = health.memgests[1];
  EXPECT_EQ(srs.condition, Condition::kProtected);
  EXPECT_EQ(srs.promised, 2);
  EXPECT_EQ(srs.now, 2);
  EXPECT_EQ(srs.keys, 15 * kKeys);
  EXPECT_EQ(srs.keys_at_risk, 0u);
}

// docs/GLOSSARY.md, "survives now": each member that lacks something costs one of f(M).
TEST_F(HealthSummary, AMemberThatIsNotCompleteCostsOneFailure) {
  Report(2, 1).sets[1].complete = 0b01010;  // role 4 has not all values yet
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kWarn);
  const MemgestHealth& srs = health.memgests[1];
  EXPECT_EQ(srs.condition, Condition::kRecovering);
  EXPECT_EQ(srs.now, 1);
  EXPECT_EQ(srs.keys_at_risk, kKeys);
  EXPECT_EQ(health.memgests[0].condition, Condition::kProtected);
}

TEST_F(HealthSummary, ARoleWithoutANodeIsDegradedSinceNobodyMendsIt) {
  view_.groups[1].roles[3] = kNoNode;
  view_.groups[1].incarnations[3] = Incarnation();
  for (std::size_t i = 0; i < 3; ++i) {
    for (MemgestNormal& set : Report(1, i).sets) {
      set.active &= ~0b01000u;
      set.complete &= ~0b01000u;
    }
  }
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kWarn);
  EXPECT_EQ(health.memgests[0].condition, Condition::kDegraded);
  EXPECT_EQ(health.memgests[0].now, 0);
  EXPECT_EQ(health.memgests[0].keys_at_risk, 3 * kKeys);
  EXPECT_EQ(health.memgests[1].now, 1);
}

TEST_F(HealthSummary, ValuesThatAreAwayGiveTheShareThatIsBack) {
  ShardReport& shard = Report(0, 0);
  shard.counts[0].absent = 5;
  const MemgestHealth rep = Sum().memgests[0];
  EXPECT_EQ(rep.condition, Condition::kRecovering);
  EXPECT_EQ(rep.now, 0);  // Rep(3) by quorum promised 1
  // 15 shards x 3 copies of ten values, less five.
  EXPECT_DOUBLE_EQ(rep.recovered, 445.0 / 450.0);
}

TEST_F(HealthSummary, AMembersAbsentValuesCountAsAway) {
  reports_[view_.groups[0].roles[3].value()].members = {{GroupId(0), ShardId(0), MemgestId(1), 4}};
  const MemgestHealth rep = Sum().memgests[0];
  EXPECT_EQ(rep.condition, Condition::kRecovering);
  EXPECT_DOUBLE_EQ(rep.recovered, 446.0 / 450.0);
}

TEST_F(HealthSummary, S6AParityThatIsRebuiltIsNotThereYet) {
  Report(0, 0).sets[1].active_from = {{Role(4), 3}};
  const MemgestHealth srs = Sum().memgests[1];
  EXPECT_EQ(srs.condition, Condition::kRecovering);
  EXPECT_EQ(srs.now, 1);
  EXPECT_DOUBLE_EQ(srs.recovered, 440.0 / 450.0);  // none of the ten values of this parity
  Report(0, 0).rebuilds = {{MemgestId(2), Role(4), 30, 100}};
  EXPECT_DOUBLE_EQ(Sum().memgests[1].recovered, 443.0 / 450.0);
  Report(0, 0).rebuilds[0].sent = 100;  // sent is not yet folded
  EXPECT_EQ(Sum().memgests[1].condition, Condition::kRecovering);
}

TEST_F(HealthSummary, LostValuesFail) {
  Report(0, 0).counts[1] = {MemgestId(2), kKeys, kKeys, 2, 2};
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kFail);
  EXPECT_EQ(health.memgests[1].keys_lost, 2u);
}

TEST_F(HealthSummary, L10AShardWithoutACoordinatorIsStopped) {
  view_.groups[3].roles[0] = kNoNode;
  view_.groups[3].incarnations[0] = Incarnation();
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kFail);
  ASSERT_EQ(health.shards.size(), 1u);
  EXPECT_TRUE(health.shards[0].stopped);
  EXPECT_THAT(health.shards[0].reason, HasSubstr("add a node"));
  EXPECT_EQ(health.memgests[0].condition, Condition::kStopped);
  EXPECT_EQ(health.memgests[0].keys, 14 * kKeys);
}

TEST_F(HealthSummary, E8AShardThatLostTooMuchIsStopped) {
  Report(0, 2).serving = false;
  Report(0, 2).stopped = true;
  Report(0, 2).waiting = "g0/s2 stopped: too few members survived";
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kFail);
  EXPECT_THAT(health.shards[0].reason, HasSubstr("too few"));
}

TEST_F(HealthSummary, AnEpochChangeUnderWayIsRecoveringAndSaysItsPhase) {
  Report(0, 1).serving = false;
  Report(0, 1).waiting = "g0/s1 waits for node 3 to seal";
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kWarn);
  ASSERT_EQ(health.shards.size(), 1u);
  EXPECT_FALSE(health.shards[0].stopped);
  EXPECT_EQ(health.shards[0].reason, "g0/s1 waits for node 3 to seal");
}

// It may not have heard of its successor: only the epoch that was agreed upon serves.
TEST_F(HealthSummary, WhoServesInAnOldEpochDoesNotCount) {
  view_.groups[0].epoch = Epoch(2);
  const Health health = Sum();
  EXPECT_EQ(health.shards.size(), 3u);
  EXPECT_THAT(health.shards[0].reason, HasSubstr("has not begun epoch 2"));
}

TEST_F(HealthSummary, ANodeThatDoesNotAnswerIsAFinding) {
  reports_[1] = NodeHealth{NodeId(1), "node 1 is not connected", {}, {}};
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kWarn);
  EXPECT_EQ(health.shards.size(), 3u);  // of which it is the coordinator
  EXPECT_THAT(health.warnings, Contains(HasSubstr("node 1 does not answer")));
}

TEST_F(HealthSummary, ADownCoordinatorThatKeepsItsRoleStopsItsShards) {
  view_.fail_over = false;
  view_.nodes[1].status = NodeStatus::kDown;
  reports_[1] = NodeHealth{NodeId(1), "not connected", {}, {}};
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kFail);
  EXPECT_EQ(health.shards.size(), 3u);
  EXPECT_THAT(health.shards[0].reason, HasSubstr("is down and keeps the role"));
  EXPECT_THAT(health.warnings, ElementsAre(HasSubstr("node 1 (n1) is down")));
}

TEST_F(HealthSummary, L11IsAWarning) {
  view_.voter_count = 3;
  const Health health = Sum();
  EXPECT_EQ(health.level, HealthLevel::kWarn);
  EXPECT_THAT(health.warnings, ElementsAre(HasSubstr("voters=3")));
}

TEST_F(HealthSummary, NoLeaderIsAWarning) {
  const Health health = Summarize(view_, kNoNode, reports_);
  EXPECT_EQ(health.level, HealthLevel::kWarn);
  EXPECT_THAT(health.warnings, ElementsAre(HasSubstr("no leader is known")));
}

// What survives nothing is never under-protected: its promise is kept.
TEST_F(HealthSummary, AnUnreliableMemgestIsProtectedByPromisingNothing) {
  view_.memgests[0] = Rep("REP1", 1);
  view_.memgests[0].id = MemgestId(1);
  for (NodeHealth& report : reports_) {
    for (ShardReport& shard : report.shards) shard.sets[0].complete = 0;  // after a takeover
  }
  const Health health = Sum();
  EXPECT_EQ(health.memgests[0].condition, Condition::kProtected);
  EXPECT_EQ(health.memgests[0].keys_at_risk, 0u);
}

TEST_F(HealthSummary, ADrainIsSafeWhenOthersHaveEverything) {
  EXPECT_OK(CheckDrain(view_, reports_, NodeId(1), false));
  EXPECT_OK(CheckDrain(view_, reports_, NodeId(5), false));  // the spare
}

TEST_F(HealthSummary, ADrainOfTheLastHolderIsRefusedWithoutForce) {
  view_.memgests[0] = Rep("REP1", 1);
  view_.memgests[0].id = MemgestId(1);
  EXPECT_THAT(CheckDrain(view_, reports_, NodeId(1), false),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("REP1"), HasSubstr("move them to another memgest"))));
  EXPECT_OK(CheckDrain(view_, reports_, NodeId(1), true));
  for (NodeHealth& report : reports_) {
    for (ShardReport& shard : report.shards) shard.counts[0].keys = 0;
  }
  EXPECT_OK(CheckDrain(view_, reports_, NodeId(1), false));
}

TEST_F(HealthSummary, ADrainWaitsForWhoIsStillIncomplete) {
  Report(1, 0).sets[0].complete = 0b00001;  // of REP3, only the coordinator has everything
  EXPECT_THAT(
      CheckDrain(view_, reports_, view_.groups[1].roles[0], false),
      StatusIs(absl::StatusCode::kFailedPrecondition, AllOf(HasSubstr("REP3"), HasSubstr("wait"))));
  Report(2, 0).serving = false;
  Report(2, 0).waiting = "g2/s0 fetches metadata";
  // Who asks is told to ask again: that passes.
  EXPECT_THAT(CheckDrain(view_, reports_, view_.groups[2].roles[0], true),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fetches metadata")));
  Report(2, 0).stopped = true;
  EXPECT_THAT(CheckDrain(view_, reports_, view_.groups[2].roles[0], true),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fetches metadata")));
}

TEST_F(HealthSummary, ADrainNeedsANodeThatIsUpAndASpare) {
  EXPECT_THAT(CheckDrain(view_, reports_, NodeId(17), false),
              StatusIs(absl::StatusCode::kNotFound));
  view_.nodes[5].status = NodeStatus::kDown;
  EXPECT_THAT(CheckDrain(view_, reports_, NodeId(1), false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no spare")));
  EXPECT_THAT(CheckDrain(view_, reports_, NodeId(5), false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is down")));
}

}  // namespace
}  // namespace ring::cluster
