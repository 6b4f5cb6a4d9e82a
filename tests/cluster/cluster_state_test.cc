#include "ring/cluster/cluster_state.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/cluster/health.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/cluster/cluster_state_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;

using ClusterStateTest = ClusterStateFixture;

TEST_F(ClusterStateTest, L8TheFirstStartOfANodeTakesItsRolesWithoutANewEpoch) {
  for (int g = 0; g < 5; ++g) {
    EXPECT_EQ(group(g).epoch, Epoch(1));
    for (std::size_t x = 0; x < 5; ++x) {
      EXPECT_EQ(group(g).incarnations[x].value(), 100 + group(g).roles[x].value());
    }
  }
  EXPECT_EQ(view().epoch, 7u);  // each registration is a view
  EXPECT_EQ(view().spare_count(), 1);
}

TEST_F(ClusterStateTest, L8ANodeHeardOfWhenItsGroupWasNormalMeansANewEpoch) {
  ClusterState state(FailOverView());
  for (int i = 0; i < 4; ++i) ASSERT_OK(state.Apply(Register(i, 100 + i)).status);
  // Group 0 became normal without role 4.
  SetNormal normal = NormalOf(*state.view(), 0, 0);
  for (MemgestNormal& one : normal.memgests) one.active = one.complete = 0b01001;
  ASSERT_OK(state.Apply(normal).status);
  ASSERT_OK(state.Apply(Register(4, 104)).status);
  EXPECT_EQ(state.view()->groups[0].epoch, Epoch(2));
  EXPECT_EQ(state.view()->groups[1].epoch, Epoch(1));
}

TEST_F(ClusterStateTest, RegisteringAgainChangesTheAddressesOnly) {
  EXPECT_FALSE(Do(Register(2, 102)).changed);
  RegisterNode moved = Register(2, 102);
  moved.info.tcp_address = "tcp:10.9.9.9:1";
  const ClusterResult result = Do(moved);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.node, NodeId(2));
  EXPECT_EQ(view().nodes[2].tcp_address, "tcp:10.9.9.9:1");
  EXPECT_EQ(group(0).epoch, Epoch(1));
}

TEST_F(ClusterStateTest, RegistrationsThatNoViewCanHoldAreRefused) {
  RegisterNode bad = Register(2, 202);
  bad.info.tcp_address = view().nodes[0].tcp_address;
  ExpectRefused(bad, "address=", absl::StatusCode::kInvalidArgument);
  ExpectRefused(Register(2, 0), "without an incarnation", absl::StatusCode::kInvalidArgument);
}

TEST_F(ClusterStateTest, OneSpareInheritsAllRolesOfAFailedNode) {
  Fail(1, 101);
  EXPECT_EQ(view().nodes[1].status, NodeStatus::kDown);
  for (int g = 0; g < 5; ++g) {
    EXPECT_EQ(group(g).epoch, Epoch(2));
    const auto role = static_cast<std::size_t>((5 + 1 - g) % 5);
    EXPECT_EQ(group(g).roles[role], NodeId(5)) << "g=" << g;
    EXPECT_EQ(group(g).incarnations[role], Incarnation(105));
  }
  EXPECT_FALSE(view().HoldsRole(NodeId(1)));
}

TEST_F(ClusterStateTest, L10WithoutASpareTheRolesStayVacantUntilANodeJoins) {
  Fail(1, 101);
  Fail(2, 102);
  EXPECT_EQ(group(0).roles[2], kNoNode);
  EXPECT_EQ(group(0).epoch, Epoch(3));
  EXPECT_EQ(view().Coordinator(GroupId(0), ShardId(2)), kNoNode);
  // L8: the node restarted; it is a spare at once, with an empty memory.
  ASSERT_OK(Do(Register(2, 202)).status);
  EXPECT_EQ(group(0).roles[2], NodeId(2));
  EXPECT_EQ(group(0).incarnations[2], Incarnation(202));
  EXPECT_EQ(group(0).epoch, Epoch(4));
}

TEST_F(ClusterStateTest, L10NoNodeGetsTwoRolesOfAGroup) {
  Fail(1, 101);
  Fail(2, 102);
  // n5 holds n1's roles, so it gets none of n2's; only a node without a role in the group does.
  for (int g = 0; g < 5; ++g) {
    int vacant = 0;
    for (const NodeId holder : group(g).roles) vacant += holder == kNoNode ? 1 : 0;
    EXPECT_EQ(vacant, 1) << "g=" << g;
  }
  EXPECT_OK(view().Validate());
}

TEST_F(ClusterStateTest, CoordinatorsComeBeforeRedundantRoles) {
  Fail(5, 105);
  Fail(0, 100);
  Fail(1, 101);
  // One node for two vacant roles in each group.
  ASSERT_OK(Do(Register(5, 205)).status);
  for (int g = 0; g < 5; ++g) {
    const std::vector<NodeId>& roles = group(g).roles;
    const auto taken = std::find(roles.begin(), roles.end(), NodeId(5)) - roles.begin();
    const auto vacant = std::find(roles.begin(), roles.end(), kNoNode) - roles.begin();
    EXPECT_LT(taken, vacant) << "g=" << g;
  }
}

// What a start has counts in the role that the last Normal record names it in, and in no other.
TEST_F(ClusterStateTest, E7ASilentNodeThatComesBackTakesItsFormerRoleIfThatIsVacant) {
  for (std::uint16_t g = 0; g < 5; ++g) {
    for (std::uint16_t i = 0; i < 3; ++i) ASSERT_OK(Do(NormalOf(view(), g, i)).status);
  }
  Fail(5, 105);
  const std::vector<GroupView> before = view().groups;
  Fail(1, 101);
  Fail(4, 104);
  ASSERT_OK(Do(Register(4, 104)).status);
  for (std::size_t g = 0; g < 5; ++g) {
    const auto role = static_cast<std::size_t>((5 + 4 - g) % 5);
    ASSERT_EQ(before[g].roles[role], NodeId(4));
    EXPECT_EQ(view().groups[g].roles[role], NodeId(4)) << "g=" << g;
    EXPECT_EQ(view().groups[g].incarnations[role], Incarnation(104));
  }
  // Another start of it has nothing: coordinators come first.
  Fail(4, 104);
  ASSERT_OK(Do(Register(4, 204)).status);
  for (std::size_t g = 0; g < 5; ++g) {
    const std::vector<NodeId>& roles = view().groups[g].roles;
    const auto taken = std::find(roles.begin(), roles.end(), NodeId(4)) - roles.begin();
    const auto vacant = std::find(roles.begin(), roles.end(), kNoNode) - roles.begin();
    EXPECT_LT(taken, vacant) << "g=" << g;
  }
}

TEST_F(ClusterStateTest, L4AHigherStartKnowsItsPredecessorDead) {
  // The restart is the proof: as if node 3 had failed, and the spare inherits.
  ASSERT_OK(Do(Register(3, 203)).status);
  EXPECT_FALSE(view().HoldsRole(NodeId(3)));
  EXPECT_TRUE(view().HoldsRole(NodeId(5)));
  EXPECT_EQ(view().nodes[3].status, NodeStatus::kUp);
  EXPECT_EQ(group(0).epoch, Epoch(2));
  // What is still said of the dead start is void, or done already.
  ExpectRefused(Register(3, 103), "is over", absl::StatusCode::kAborted);
  EXPECT_FALSE(Do(FailNode{NodeId(3), Incarnation(103), "late"}).changed);
  EXPECT_EQ(view().nodes[3].status, NodeStatus::kUp);
}

TEST_F(ClusterStateTest, L8OnlyThePresentStartCanFail) {
  ExpectRefused(FailNode{NodeId(3), Incarnation(999), "x"}, "incarnation=103");
  ExpectRefused(FailNode{NodeId(77), Incarnation(1), "x"}, "node=77", absl::StatusCode::kNotFound);
  Fail(3, 103);
  EXPECT_FALSE(Do(FailNode{NodeId(3), Incarnation(103), "again"}).changed);
}

TEST_F(ClusterStateTest, L8ASilentNodeThatComesBackIsASpareAndKeepsItsIncarnation) {
  Fail(3, 103);
  ASSERT_OK(Do(Register(3, 103)).status);
  EXPECT_EQ(view().nodes[3].status, NodeStatus::kUp);
  EXPECT_EQ(view().nodes[3].incarnation, Incarnation(103));
  EXPECT_FALSE(view().HoldsRole(NodeId(3)));
  EXPECT_EQ(view().spare_count(), 1);
  EXPECT_EQ(group(0).epoch, Epoch(2));
}

TEST_F(ClusterStateTest, WithoutFailOverAFailedNodeKeepsItsRoles) {
  View initial = TestView();
  ClusterState state(initial);
  for (int i = 0; i < 6; ++i) ASSERT_OK(state.Apply(Register(i, 100 + i)).status);
  ASSERT_OK(state.Apply(FailNode{NodeId(1), Incarnation(101), "x"}).status);
  EXPECT_EQ(state.view()->nodes[1].status, NodeStatus::kDown);
  EXPECT_EQ(state.view()->groups[0].roles[1], NodeId(1));
  EXPECT_EQ(state.view()->groups[0].epoch, Epoch(1));
  // A restart is no holder: the role is its dead predecessor's.
  ASSERT_OK(state.Apply(Register(1, 201)).status);
  EXPECT_EQ(state.view()->nodes[1].incarnation, Incarnation(201));
  EXPECT_EQ(state.view()->groups[0].incarnations[1], Incarnation(101));
  EXPECT_THAT(state.Apply(DrainNode{NodeId(0)}).status, StatusIs(kRefused, HasSubstr("fail_over")));
}

// It may only have been silent, and be the only one who has what a shard stopped for (E8).
TEST_F(ClusterStateTest, I2WhoMayHaveTheLastCopyIsNotRemovedUnasked) {
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(Do(FailNode{NodeId(1), Incarnation(101), "silent"}).status);
  ASSERT_FALSE(view().HoldsRole(NodeId(1)));
  ExpectRefused(RemoveNode{NodeId(1)}, "may have the last copy for group=0 shard=0");
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(Do(RemoveNode{NodeId(1)}).status) << "the shard serves without it";
}

// Else a living node that was failed first registers in between, and has its roles again.
TEST_F(ClusterStateTest, ALivingNodeIsRemovedByForceInOneStep) {
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(Do(RemoveNode{NodeId(1), /*force=*/true}).status);
  EXPECT_EQ(view().nodes[1].status, NodeStatus::kRemoved);
  EXPECT_FALSE(view().HoldsRole(NodeId(1)));
  EXPECT_EQ(group(0).epoch, Epoch(2));
  ExpectRefused(Register(1, 101), "was removed");
}

TEST_F(ClusterStateTest, ANodeIsRemovedWhenNobodyNeedsItAnyMore) {
  ExpectRefused(RemoveNode{NodeId(0)}, "drain it first");
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(Do(DrainNode{NodeId(0)}).status);
  ExpectRefused(RemoveNode{NodeId(0)}, "still a source");
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(Do(RemoveNode{NodeId(0)}).status);
  EXPECT_EQ(view().nodes[0].status, NodeStatus::kRemoved);
  EXPECT_EQ(view().nodes[0].tcp_address, "");
  EXPECT_FALSE(Do(RemoveNode{NodeId(0)}).changed);
  EXPECT_FALSE(Do(FailNode{NodeId(0), Incarnation(100), "x"}).changed);
  ExpectRefused(Register(0, 100), "was removed");
  ASSERT_OK(Do(Register(0, 200)).status);
  EXPECT_EQ(view().nodes[0].status, NodeStatus::kUp);
}

TEST_F(ClusterStateTest, E5ANewEpochDemotesLaggingMembersToLearners) {
  ExpectRefused(NewEpoch{GroupId(2), Epoch(1), 0b10000, "role 4 lags"}, "does not serve");
  for (std::uint16_t shard = 0; shard < 3; ++shard) {
    ASSERT_OK(Do(NormalOf(view(), 2, shard)).status);
  }
  ASSERT_OK(Do(NewEpoch{GroupId(2), Epoch(1), 0b10000, "role 4 lags"}).status);
  EXPECT_EQ(group(2).epoch, Epoch(2));
  EXPECT_EQ(group(2).demoted, 0b10000u);
  ExpectRefused(NewEpoch{GroupId(2), Epoch(1), 0, "late"}, "epoch=2");
  ExpectRefused(NewEpoch{GroupId(5), Epoch(1), 0, ""}, "group=5",
                absl::StatusCode::kInvalidArgument);
  ExpectRefused(NewEpoch{GroupId(0), Epoch(1), 1u << 7, ""}, "demoted=128",
                absl::StatusCode::kInvalidArgument);
  // The first record of the epoch may not name it; a further one may (L7).
  SetNormal normal = NormalOf(view(), 2, 0);
  ExpectRefused(normal, "demoted role");
  SetNormal without = normal;
  for (MemgestNormal& one : without.memgests) {
    one.active &= ~0b10000u;
    one.complete = one.active;
  }
  ASSERT_OK(Do(without).status);
  ASSERT_OK(Do(normal).status);
  EXPECT_EQ(group(2).shards[0].normal.memgests[0].active, 0b11001u);
}

TEST_F(ClusterStateTest, ANormalRecordNamesTheHoldersOfItsEpoch) {
  EXPECT_FALSE(view().IsNormal(GroupId(0), ShardId(1)));
  ASSERT_OK(Do(NormalOf(view(), 0, 1)).status);
  EXPECT_TRUE(view().IsNormal(GroupId(0), ShardId(1)));
  EXPECT_FALSE(view().IsNormal(GroupId(0), ShardId(0)));
  Fail(1, 101);
  const NormalRecord& normal = group(0).shards[1].normal;
  EXPECT_EQ(normal.epoch, Epoch(1));
  EXPECT_EQ(normal.holders[1], (Holder{NodeId(1), Incarnation(101)}));
  EXPECT_FALSE(view().IsNormal(GroupId(0), ShardId(1)));
}

// Step 6 of an epoch change: an epoch that was abandoned never becomes normal.
TEST_F(ClusterStateTest, ALateNormalRecordIsRefused) {
  const SetNormal late = NormalOf(view(), 0, 0);
  Fail(1, 101);
  ExpectRefused(late, "epoch=2");
  ExpectRefused(SetNormal{GroupId(0), ShardId(3), Epoch(2), {}}, "shard=3",
                absl::StatusCode::kInvalidArgument);
}

TEST_F(ClusterStateTest, V2TheFirstRecordOfAnEpochNamesEveryMemgest) {
  SetNormal normal = NormalOf(view(), 0, 0);
  normal.memgests.pop_back();
  ExpectRefused(normal, "memgest=2: is missing");
}

TEST_F(ClusterStateTest, ANormalRecordNamesRolesThatAreThere) {
  Fail(1, 101);
  Fail(4, 104);  // role 4 of group 0
  const SetNormal good = NormalOf(view(), 0, 0);
  EXPECT_EQ(good.memgests[0].active, 0b01001u);
  SetNormal bad = good;
  bad.memgests[0].active |= 0b10000;
  ExpectRefused(bad, "memgest=1: active=25");
  bad = good;
  bad.memgests[0].active |= 0b00010;  // a coordinator of another shard: not used by the memgest
  ExpectRefused(bad, "active=11");
  bad = good;
  bad.memgests[0].active &= ~1u;
  bad.memgests[0].complete &= ~1u;
  ExpectRefused(bad, "coordinator is not active");
  bad = good;
  bad.memgests[0].complete |= 0b10000;
  ExpectRefused(bad, "complete=25");
  bad = good;
  std::swap(bad.memgests[0], bad.memgests[1]);
  ExpectRefused(bad, "ascend", absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.memgests[1].active_from = {{Role(4), 3}};
  ExpectRefused(bad, "active_from of role=4", absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.memgests.push_back({MemgestId(9), 1, 1, false, {}});
  ExpectRefused(bad, "memgest=9: is not known");
  ASSERT_OK(Do(good).status);
}

TEST_F(ClusterStateTest, L7AFurtherRecordOfTheSameEpochOnlyAdds) {
  const SetNormal all = NormalOf(view(), 0, 0);
  SetNormal some = all;
  some.memgests[0].active = 0b01001;
  some.memgests[0].complete = 0b00001;
  some.memgests[1].active_from = {{Role(4), 7}};
  some.memgests[1].complete = 0b01001;
  ASSERT_OK(Do(some).status);
  EXPECT_FALSE(Do(some).changed);  // a retry
  SetNormal back = some;
  back.memgests[0].active = back.memgests[0].complete = 0b00001;
  ExpectRefused(back, "take back");
  back = some;
  back.memgests[1].active_from = {{Role(4), 8}};
  ExpectRefused(back, "role=4 counted from an earlier extent");
  back = some;
  back.memgests[1].active_from = {{Role(3), 1}};
  ExpectRefused(back, "role=3 counted");
  back = some;
  back.memgests.pop_back();
  ExpectRefused(back, "memgest=2: is missing");
  ASSERT_OK(Do(all).status);
  EXPECT_EQ(group(0).shards[0].normal.memgests[0].active, 0b11001u);
  EXPECT_THAT(group(0).shards[0].normal.memgests[1].active_from, IsEmpty());
  EXPECT_EQ(group(0).epoch, Epoch(1));
  ExpectRefused(some, "take back");
}

// A role that joins within the epoch may count from an extent on (S6).
TEST_F(ClusterStateTest, L7AJoinerMayCountFromAnExtentOn) {
  SetNormal some = NormalOf(view(), 0, 0);
  some.memgests[1].active = some.memgests[1].complete = 0b01001;
  ASSERT_OK(Do(some).status);
  some.memgests[1].active = 0b11001;
  some.memgests[1].active_from = {{Role(4), 12}};
  ASSERT_OK(Do(some).status);
  some.memgests[1].active_from = {{Role(4), 5}};
  ASSERT_OK(Do(some).status);
}

TEST_F(ClusterStateTest, E8LossesCountOnlyWhenTheyWereAccepted) {
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  Fail(1, 101);
  SetNormal lossy = NormalOf(view(), 0, 0);
  lossy.memgests[1].lost = true;
  ExpectRefused(lossy, "losses were not accepted");
  ExpectRefused(Overrun{GroupId(0), ShardId(0), Epoch(1), {MemgestId(2)}}, "epoch=2");
  ExpectRefused(Overrun{GroupId(0), ShardId(0), Epoch(2), {MemgestId(9)}}, "memgest=9",
                absl::StatusCode::kNotFound);
  ExpectRefused(Overrun{GroupId(0), ShardId(0), Epoch(2), {}}, "no memgest",
                absl::StatusCode::kInvalidArgument);
  ASSERT_OK(Do(Overrun{GroupId(0), ShardId(0), Epoch(2), {MemgestId(2)}}).status);
  EXPECT_FALSE(Do(Overrun{GroupId(0), ShardId(0), Epoch(2), {MemgestId(2)}}).changed);
  EXPECT_THAT(group(0).shards[0].overrun, ElementsAre(MemgestId(2)));
  SetNormal other = NormalOf(view(), 0, 0);
  other.memgests[0].lost = true;
  ExpectRefused(other, "memgest=1: its losses");
  ASSERT_OK(Do(lossy).status);
  EXPECT_THAT(HealthWarnings(view()), ::testing::Contains(HasSubstr("SRS32 lost values")));
  ExpectRefused(NormalOf(view(), 0, 0), "lost changes");
  ExpectRefused(Overrun{GroupId(0), ShardId(0), Epoch(2), {MemgestId(1)}}, "serves already");
}

TEST_F(ClusterStateTest, E8ARecordNamesSomebodyWithTheValues) {
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  Fail(0, 100);
  SetNormal normal = NormalOf(view(), 0, 0);
  normal.memgests[1].complete = 0;
  ExpectRefused(normal, "memgest=2: names nobody with all values");
  SetNormal accepted = normal;
  accepted.memgests[1].lost = true;
  ASSERT_OK(Do(Overrun{GroupId(0), ShardId(0), Epoch(2), {MemgestId(2)}}).status);
  ExpectRefused(normal, "names nobody");
  ASSERT_OK(Do(accepted).status);
  ASSERT_OK(Do(NewEpoch{GroupId(0), Epoch(2), 0, "test"}).status);
  normal.epoch = Epoch(3);
  ASSERT_OK(Do(normal).status) << "nobody had them";
}

// More may be lost by then than the operator looked at.
TEST_F(ClusterStateTest, E8TheForceEndsWithItsEpoch) {
  ASSERT_OK(Do(Overrun{GroupId(0), ShardId(0), Epoch(1), {MemgestId(2)}}).status);
  Fail(1, 101);
  EXPECT_EQ(group(0).shards[0].overrun_epoch, Epoch(0));
  SetNormal lossy = NormalOf(view(), 0, 0);
  lossy.memgests[1].lost = true;
  ExpectRefused(lossy, "losses were not accepted");
}

TEST_F(ClusterStateTest, E8ThePolicyContinueAcceptsLosses) {
  View initial = FailOverView();
  initial.overrun = OverrunPolicy::kContinue;
  ClusterState state(initial);
  SetNormal lossy = NormalOf(*state.view(), 0, 0);
  lossy.memgests[1].lost = true;
  EXPECT_OK(state.Apply(lossy).status);
}

TEST_F(ClusterStateTest, L11IsAWarningNotACondition) {
  View initial = FailOverView();
  initial.voter_count = 3;
  ClusterState state(initial);
  EXPECT_THAT(HealthWarnings(*state.view()), ElementsAre(HasSubstr("voters=3")));
  EXPECT_OK(state.Apply(NormalOf(*state.view(), 0, 0)).status);
}

// Its last record could not say whether it holds something of a memgest that came in between.
TEST_F(ClusterStateTest, E8AMemgestIsOfNoUseWhileAShardIsBetweenTwoEpochs) {
  using protocol::MemgestState;
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(Do(CreateCommand({"a", 1}, Rep("REP2", 2))).status);
  ASSERT_OK(Do(NewEpoch{GroupId(0), group(0).epoch, 0, "a link"}).status);
  const CatalogueCommand activate =
      SetStateCommand({}, MemgestId(3), MemgestState::kCreating, MemgestState::kActive);
  ExpectRefused(activate, "group=0 shard=0", absl::StatusCode::kUnavailable);
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  EXPECT_OK(Do(activate).status);
}

// Who takes a shard over adopts what members hold, and these drop a deleted memgest each in its own
// time: the adopted logs would not agree with what is left.
TEST_F(ClusterStateTest, G10NothingIsDeletedWhileAShardIsBetweenTwoEpochs) {
  using protocol::MemgestState;
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  ASSERT_OK(
      Do(SetStateCommand({}, MemgestId(2), MemgestState::kActive, MemgestState::kDraining)).status);
  const CatalogueCommand deletes = DeletedCommand(MemgestId(2), state_.catalogue().revision());
  ASSERT_OK(Do(NewEpoch{GroupId(0), group(0).epoch, 0, "a link"}).status);
  ExpectRefused(deletes, "group=0 shard=0", absl::StatusCode::kUnavailable);
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  EXPECT_OK(Do(deletes).status);
}

TEST_F(ClusterStateTest, G10TheCatalogueIsPartOfTheView) {
  const ClusterResult created = Do(CreateCommand({"a", 1}, Rep("REP2", 2)));
  ASSERT_OK(created.status);
  EXPECT_EQ(created.memgest, MemgestId(3));
  EXPECT_EQ(view().FindMemgest("REP2")->state, protocol::MemgestState::kCreating);
  // While it is created, a shard may become normal with or without it.
  ASSERT_OK(Do(NormalOf(view(), 0, 0)).status);
  using protocol::MemgestState;
  ASSERT_OK(
      Do(SetStateCommand({}, MemgestId(3), MemgestState::kCreating, MemgestState::kActive)).status);
  SetNormal with = NormalOf(view(), 0, 0);
  EXPECT_EQ(with.memgests.size(), 3u);
  ASSERT_OK(Do(with).status);
  ExpectRefused(SetStateCommand({}, MemgestId(1), MemgestState::kActive, MemgestState::kDraining),
                "default");
  ASSERT_OK(
      Do(SetStateCommand({}, MemgestId(3), MemgestState::kActive, MemgestState::kDraining)).status);
  ASSERT_OK(Do(DeletedCommand(MemgestId(3), state_.catalogue().revision())).status);
  // A deleted one need not be named any more, and may be.
  ASSERT_OK(Do(with).status);
  with.memgests.pop_back();
  ASSERT_OK(Do(with).status);
}

TEST_F(ClusterStateTest, X6ARetriedRequestIsAnsweredFromMemory) {
  ASSERT_OK(Do(CreateCommand({"a", 1}, Rep("REP2", 2))).status);
  const std::uint32_t epoch = view().epoch;
  const ClusterResult again = Do(CreateCommand({"a", 1}, Rep("REP2", 2)));
  EXPECT_OK(again.status);
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.memgest, MemgestId(3));
  EXPECT_EQ(view().epoch, epoch);
  EXPECT_EQ(view().memgests.size(), 3u);
  // Also a refusal is remembered.
  const absl::Status first = Do(CreateCommand({"a", 2}, Rep("REP2", 2))).status;
  EXPECT_EQ(Do(CreateCommand({"a", 2}, Rep("REP2", 2))).status, first);
}

TEST_F(ClusterStateTest, AGroupThatUsedUpItsEpochsRefusesAnother) {
  View initial = FailOverView();
  initial.groups[3].epoch = Epoch(kEpochMax);
  ClusterState state(initial);
  EXPECT_THAT(state.Apply(NewEpoch{GroupId(3), Epoch(kEpochMax), 0, ""}).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("group=3")));
}

}  // namespace
}  // namespace ring::cluster
