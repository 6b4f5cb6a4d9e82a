// When a role goes back to who held it as its shard last served (E8).
#include "ring/cluster/role_return.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ring/cluster/cluster_state.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

// Roles 0 to 4 of group 0 are at nodes 0 to 4, and nodes 5 and 6 are spares. All shards serve, and
// REP2 is at role 3, but for its coordinators.
class RoleReturnTest : public ::testing::Test {
 protected:
  RoleReturnTest() : state_(Initial()) {
    for (int i = 0; i < 7; ++i) EXPECT_OK(Do(Register(i, 100 + i)));
    for (std::uint16_t shard = 0; shard < 3; ++shard) EXPECT_OK(Do(NormalOf(view(), 0, shard)));
  }
  static View Initial() {
    View view = InitialView(3, 2, TestNodes(7), {Rep("REP2", 2)});
    view.fail_over = true;
    return view;
  }
  absl::Status Do(const ClusterCommand& command) { return state_.Apply(command).status; }
  const View& view() const { return *state_.view(); }
  const GroupView& group() const { return view().groups[0]; }
  // The member was only silent: spare 5 has its role, and spare 6 that of the coordinator.
  void LoseMemberAndCoordinator() {
    ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
    ASSERT_OK(Do(FailNode{NodeId(0), Incarnation(100), "silent"}));
    ASSERT_EQ(group().roles[3], NodeId(5));
    ASSERT_EQ(group().roles[0], NodeId(6));
    ASSERT_OK(Do(Register(3, 103)));
    ASSERT_EQ(group().roles[3], NodeId(5));
  }
  // Another shard becomes Normal; its new member has all values of it by then, or not.
  void Serves(std::uint16_t shard, bool coordinator_has_all, bool member_has_all) {
    SetNormal normal = NormalOf(view(), 0, shard);
    RoleMask& complete = normal.memgests.front().complete;
    if (!coordinator_has_all) complete &= ~(RoleMask{1} << shard);
    if (!member_has_all) complete &= ~(RoleMask{1} << 3);
    ASSERT_OK(Do(normal));
  }
  ReturnRole Return(std::uint16_t role) const {
    return {GroupId(0), ShardId(0), group().epoch, Role(role)};
  }
  void ExpectRefused(const ReturnRole& command, const std::string& what) {
    const std::string before = state_.Snapshot();
    EXPECT_THAT(Do(command), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(what)));
    EXPECT_EQ(state_.Snapshot(), before);
  }
  ClusterState state_;
};

TEST_F(RoleReturnTest, E8WhoHasTheValuesGetsItsRoleAndTheOtherGivesWay) {
  LoseMemberAndCoordinator();
  const Epoch before = group().epoch;
  ASSERT_OK(Do(Return(3)));
  EXPECT_EQ(group().roles[3], NodeId(3));
  EXPECT_EQ(group().incarnations[3], Incarnation(103));
  EXPECT_EQ(group().roles[0], NodeId(6));
  EXPECT_EQ(group().epoch.value(), before.value() + 1);
  EXPECT_FALSE(view().HoldsRole(NodeId(5)) &&
               std::count(group().roles.begin(), group().roles.end(), NodeId(5)) > 0)
      << "a spare again";
  ExpectRefused(Return(3), "nobody else held the role");
}

// It was given the coordinator's role of the very shard that stopped.
TEST_F(RoleReturnTest, E8TheRoleThatItWasGivenMeanwhileGoesToAnother) {
  ASSERT_OK(Do(FailNode{NodeId(6), Incarnation(106), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(0), Incarnation(100), "silent"}));
  ASSERT_OK(Do(Register(3, 103)));
  ASSERT_EQ(group().roles[3], NodeId(5));
  ASSERT_EQ(group().roles[0], NodeId(3));
  ASSERT_OK(Do(Return(3)));
  EXPECT_EQ(group().roles[3], NodeId(3));
  EXPECT_EQ(group().roles[0], NodeId(5));
}

TEST_F(RoleReturnTest, E8AnotherStartOfTheNodeHasNothing) {
  LoseMemberAndCoordinator();
  ASSERT_OK(Do(Register(3, 203)));
  ExpectRefused(Return(3), "node 3 is not there as it was");
}

TEST_F(RoleReturnTest, E8AShardThatServesTakesNobodyBack) {
  ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
  Serves(0, true, false);
  ASSERT_OK(Do(Register(3, 103)));
  ExpectRefused(Return(3), "the shard has not stopped");
}

// I2: or a further failure would cost that shard what it was told to be safe from.
TEST_F(RoleReturnTest, I2WhoProtectsAnotherShardByNowStays) {
  LoseMemberAndCoordinator();
  Serves(1, true, false);
  EXPECT_OK(CheckReturn(view(), GroupId(0), ShardId(0), Role(3)));
  Serves(2, true, true);
  ExpectRefused(Return(3), "node 5 has all values of shard=2");
}

// A coordinator that lost its role and has it again is named with values that it has no more. Two
// shards would take a member from each other for ever.
TEST_F(RoleReturnTest, E8TwoStoppedShardsTakeNothingFromEachOther) {
  LoseMemberAndCoordinator();
  Serves(1, true, true);
  ASSERT_OK(Do(FailNode{NodeId(1), Incarnation(101), "silent"}));
  ASSERT_OK(Do(Register(0, 100)));
  ASSERT_OK(Do(FailNode{NodeId(6), Incarnation(106), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
  ASSERT_OK(Do(Register(1, 101)));
  ASSERT_OK(Do(Register(3, 103)));
  ASSERT_EQ(group().roles[1], NodeId(1));
  ASSERT_EQ(group().roles[3], NodeId(5));
  ExpectRefused(Return(3), "node 5 has all values of shard=1");
}

// What is about to serve is not left without a coordinator.
TEST_F(RoleReturnTest, E8AReturnLeavesNoShardWithoutACoordinator) {
  ASSERT_OK(Do(FailNode{NodeId(5), Incarnation(105), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(6), Incarnation(106), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
  ASSERT_OK(Do(Register(5, 105)));
  ASSERT_OK(Do(FailNode{NodeId(1), Incarnation(101), "silent"}));
  ASSERT_OK(Do(Register(3, 103)));
  ASSERT_EQ(group().roles[3], NodeId(5));
  ASSERT_EQ(group().roles[1], NodeId(3));
  ASSERT_OK(Do(FailNode{NodeId(5), Incarnation(105), "silent"}));
  ASSERT_EQ(group().roles[3], kNoNode);
  ExpectRefused(Return(3), "no spare coordinates in place of node 3");
}

// L1: it may hold a lease, and read for clients.
TEST_F(RoleReturnTest, L1WhoCoordinatesAnotherShardStays) {
  ASSERT_OK(Do(FailNode{NodeId(1), Incarnation(101), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(6), Incarnation(106), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
  ASSERT_OK(Do(Register(3, 103)));  // the role that is vacant is its own
  ASSERT_EQ(group().roles[1], NodeId(5));
  ASSERT_EQ(group().roles[3], NodeId(3));
  ASSERT_OK(Do(FailNode{NodeId(3), Incarnation(103), "silent"}));
  ASSERT_OK(Do(FailNode{NodeId(2), Incarnation(102), "silent"}));
  ASSERT_OK(Do(Register(6, 106)));
  ASSERT_OK(Do(Register(3, 103)));
  ASSERT_EQ(group().roles[2], NodeId(6));
  // Shard 1 was taken over by node 5, and serves; its former coordinator is back.
  Serves(1, true, false);
  ASSERT_OK(Do(FailNode{NodeId(0), Incarnation(100), "silent"}));
  ASSERT_OK(Do(Register(1, 101)));
  ASSERT_EQ(group().roles[0], NodeId(1));
  ExpectRefused(Return(1), "node 5 coordinates shard=1");
}

TEST_F(RoleReturnTest, E8WhatDoesNotExistIsNamed) {
  LoseMemberAndCoordinator();
  EXPECT_THAT(Do(Return(5)), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("role=5")));
  ReturnRole command = Return(3);
  command.shard = ShardId(3);
  EXPECT_THAT(Do(command), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shard=3")));
  command = Return(3);
  command.expected = Epoch(1);
  EXPECT_THAT(Do(command), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("epoch=")));
  ExpectRefused(Return(4), "nobody else held the role");
}

TEST_F(RoleReturnTest, RolesThatDoNotMoveStay) {
  LoseMemberAndCoordinator();
  View fixed = view();
  fixed.fail_over = false;
  EXPECT_THAT(CheckReturn(fixed, GroupId(0), ShardId(0), Role(3)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fail_over is off")));
}

}  // namespace
}  // namespace ring::cluster
