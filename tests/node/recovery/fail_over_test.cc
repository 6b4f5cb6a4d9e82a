// A node dies; the others notice, agree, and a spare goes on: nothing but the node is touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ring/cluster/routing.h"
#include "ring/node/events/fail_over.h"
#include "tests/node/recovery/fail_over_fixture.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;

using FailOverTest = testing::FailOverFixture;

TEST_F(FailOverTest, ValuesOfALostCoordinatorAreServedByTheSpare) {
  Load("REP3", 60);
  Load("REP4", 30);
  cluster_.Kill(NodeId(2));
  ExpectEverything();
}

// Each phase is told where it happened, in its order; and the health says that it is over.
TEST_F(FailOverTest, EventsAndHealthFollowAFailOver) {
  Load("REP3", 60);
  ASSERT_OK_AND_ASSIGN(const cluster::Health before, cluster_.admin().GetHealth());
  EXPECT_THAT(before.shards, ::testing::IsEmpty());
  EXPECT_EQ(before.memgests.front().condition, cluster::Condition::kProtected);
  cluster_.Kill(NodeId(2));
  ExpectEverything();
  ASSERT_OK_AND_ASSIGN(const std::vector<NodeEvents> events, cluster_.admin().GetEvents({}));
  EXPECT_EQ(events.size(), 5u);  // who was killed tells nothing
  const std::vector<FailOver> found = FindFailOvers(MergeEvents(events));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject, NodeId(2));
  EXPECT_TRUE(found[0].suspected_ns.has_value());
  int taken_over = 0;
  for (const ShardFailOver& shard : found[0].shards) {
    std::int64_t last = found[0].agreed_ns;
    for (const EventKind kind : {EventKind::kEpochBegun, EventKind::kSealed, EventKind::kFetched,
                                 EventKind::kReappended, EventKind::kNormal}) {
      const auto& at = shard.at[static_cast<std::size_t>(kind)];
      ASSERT_TRUE(at.has_value()) << EventName(kind);
      EXPECT_GE(*at, last) << EventName(kind);
      last = *at;
    }
    if (shard.node != NodeId(5)) continue;
    ++taken_over;
    EXPECT_TRUE(shard.at[static_cast<std::size_t>(EventKind::kFirstGet)].has_value());
  }
  EXPECT_EQ(taken_over, 3);  // the spare inherited three coordinators' roles
  ASSERT_OK_AND_ASSIGN(const cluster::Health after, cluster_.admin().GetHealth());
  EXPECT_THAT(after.shards, ::testing::IsEmpty());
  EXPECT_NE(after.leader, cluster::kNoNode);
  EXPECT_THAT(after.warnings, ::testing::Contains(::testing::HasSubstr("node 2 (n2) is down")));
}

// The values of a node that is drained are on the spare, and it can be removed then.
TEST_F(FailOverTest, ADrainedNodeGivesEverythingAway) {
  Load("REP3", 60);
  ASSERT_OK(cluster_.admin().DrainNode("n2", /*force=*/false));
  ExpectEverything();
  EXPECT_THAT(cluster_.admin().DrainNode("n1", false),
              StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("no spare")));
  ring::testing::AwaitOk("its removal", [&] { return cluster_.admin().RemoveNode("2", false); });
  EXPECT_EQ((*cluster_.admin().GetView())->nodes[2].status, cluster::NodeStatus::kRemoved);
  EXPECT_THAT(cluster_.admin().RemoveNode("n1", false),
              StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("drain it")));
  EXPECT_THAT(cluster_.admin().DrainNode("nobody", false), StatusIs(absl::StatusCode::kNotFound));
  ExpectEverything();
}

TEST_F(FailOverTest, ADrainThatWouldLoseValuesIsRefused) {
  Load("REP1", 60);
  EXPECT_THAT(cluster_.admin().DrainNode("n2", false),
              StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("REP1")));
  ExpectEverything();
}

TEST_F(FailOverTest, TheLostNodeMayLeadTheConsensus) {
  Load("REP3", 60);
  NodeId leader = cluster::kNoNode;
  cluster_.Run([&] { leader = cluster_.node(5).membership().leader(); });
  ASSERT_NE(leader, cluster::kNoNode);
  cluster_.Kill(leader);
  ExpectEverything();
}

}  // namespace
}  // namespace ring::node
