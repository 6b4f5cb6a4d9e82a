// Leases: who gets one, how long it lasts, and when a role may be taken (L1, L4, L9).
#include <functional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/fence/lease_fence.h"
#include "ring/node/fence/lease_message.h"
#include "tests/node/fence/fence_scenarios.h"
#include "tests/node/fence/lease_world.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using testing::kLeaseNs;
using testing::LeaseWorld;
using testing::TestClock;

constexpr std::uint64_t kMsNs = 1'000'000;

TEST(Lease, L1ADeposedLeaderThatKeepsGrantingGrantsNothing) { EXPECT_FALSE(DeposedLeaderGrants()); }

TEST(Lease, L1AReassignmentWaitsForTheLastGrant) { EXPECT_FALSE(RoleIsTakenUnderALease()); }

TEST(Lease, L1NothingIsGrantedBehindAReassignment) {
  EXPECT_FALSE(LeaseIsGrantedBehindAReassignment());
}

TEST(Lease, L2TheClockIsReadBehindTheCapture) { EXPECT_FALSE(ValueIsReadBehindTheCheck()); }

TEST(Lease, L9WhoCameBackIsGrantedNothingBeforeItKnowsWhatItLost) {
  EXPECT_FALSE(LeaseForRolesOfThePast());
  LeaseWorld world;
  world.Begin();
  world.Pass(LeaseWaitNs(kLeaseNs));
  world.Fail(0, 4);
  world.Register(0, 4, LeaseWorld::FirstStart(4));
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 4)));
}

TEST(Lease, L1ANewLeaderWaitsFromItsElection) {
  LeaseWorld world;
  world.Begin();
  world.Pass(10 * kLeaseNs);
  const std::uint16_t leader = world.ElectWithout(0);
  world.Fail(leader, 4);
  world.Pass(LeaseWaitNs(kLeaseNs) - 1);
  EXPECT_TRUE(world.HasRole(leader, 4));
  world.Pass(1);
  EXPECT_FALSE(world.HasRole(leader, 4));
}

// What the clocks may differ by at most is in the wait: the holder's is slow, the leader's fast.
TEST(Lease, L1TheWaitCoversClocksThatDiffer) {
  const double rho = static_cast<double>(kClockRatePpm) / 1e6;
  const auto holder = static_cast<double>(kLeaseNs) * (1 + rho);
  const double leader = static_cast<double>(LeaseWaitNs(kLeaseNs)) / (1 + rho);
  EXPECT_GE(leader, holder);
}

TEST(Lease, L1GrantsGoOnAfterAReassignmentThatCameToNothing) {
  LeaseWorld world;
  world.Begin();
  world.Pass(LeaseWaitNs(kLeaseNs));
  world.Fail(0, 5);  // the only spare
  // Without one a node that holds roles cannot be drained.
  const LeaseWorld::Outcome drained = world.Propose(0, cluster::DrainNode{NodeId(4)});
  EXPECT_THAT(**drained, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 4)));
}

TEST(Lease, L1WhileARoleIsBeingTakenItsHolderGetsNothing) {
  LeaseWorld world;
  world.Begin();
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 4)));
  const LeaseWorld::Outcome failed = world.Fail(0, 4);
  EXPECT_FALSE(failed->has_value());
  EXPECT_TRUE(LeaseWorld::Refused(world.Renew(0, 4)));
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 3))) << "another node";
  world.Pass(LeaseWaitNs(kLeaseNs));
  EXPECT_TRUE(LeaseWorld::Granted(failed));
  EXPECT_FALSE(world.HasRole(0, 4));
  EXPECT_TRUE(LeaseWorld::Refused(world.Renew(0, 4))) << "it is down";
}

TEST(Lease, L4ALaterStartOfANodeWaitsForTheLeaseOfTheOneBefore) {
  LeaseWorld world;
  world.Begin();
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 4)));
  const LeaseWorld::Outcome registered = world.Register(0, 4, Incarnation(999));
  world.Pass(LeaseWaitNs(kLeaseNs) - 1);
  EXPECT_FALSE(registered->has_value());
  world.Pass(1);
  EXPECT_TRUE(LeaseWorld::Granted(registered));
  EXPECT_TRUE(LeaseWorld::Refused(world.Renew(0, 4))) << "the former start";
}

TEST(Lease, WhatWaitedWhenLeadershipMovedDidNotHappen) {
  LeaseWorld world;
  world.Begin();
  EXPECT_TRUE(LeaseWorld::Granted(world.Renew(0, 4)));
  const LeaseWorld::Outcome failed = world.Fail(0, 4);
  const std::uint16_t leader = world.ElectWithout(0);
  world.Heal();
  for (int i = 0; i < 5; ++i) {
    world.Tick(leader);
    world.Settle();
  }
  ASSERT_TRUE(failed->has_value());
  EXPECT_THAT(**failed, StatusIs(absl::StatusCode::kUnavailable));
  world.Pass(10 * kLeaseNs);
  EXPECT_TRUE(world.HasRole(leader, 4));
}

TEST(Lease, NoLeaseIsGrantedWhereNobodyWouldWaitForIt) {
  ClusterMachine machine(cluster::ClusterState(cluster::TestView()), [](const auto&) {});
  TestClock clock;
  LeaseService leases(&clock, &machine, 0);
  absl::Status status;
  leases.OnRenew(NodeId(1), EncodeRenewal({Incarnation(1), 1}),
                 [&](const absl::StatusOr<std::string>& result) { status = result.status(); });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
}

// Which commands take a role from a node that may serve.
TEST(Lease, L1CommandsThatTakeRolesAreKnown) {
  cluster::View view = cluster::TestView();
  view.fail_over = true;
  for (cluster::NodeInfo& node : view.nodes) node.incarnation = Incarnation(7);
  const auto from = [&view](const cluster::ClusterCommand& command) {
    return LeaseGranter::TakesFrom(command, view);
  };
  const NodeId node(4);
  cluster::NodeInfo info = view.nodes[4];
  EXPECT_EQ(from(cluster::FailNode{node, Incarnation(7), ""}), node);
  EXPECT_EQ(from(cluster::DrainNode{node}), node);
  EXPECT_EQ(from(cluster::RemoveNode{node}), node);
  EXPECT_EQ(from(cluster::RegisterNode{info}), cluster::kNoNode) << "the same start";
  info.incarnation = Incarnation(8);
  EXPECT_EQ(from(cluster::RegisterNode{info}), node);
  // Who coordinates a shard gives no role back to anybody (CheckReturn).
  EXPECT_EQ(from(cluster::ReturnRole{GroupId(0), ShardId(0), Epoch(1), Role(3)}), cluster::kNoNode);
  EXPECT_EQ(from(cluster::NewEpoch{GroupId(0), Epoch(1), 0, ""}), cluster::kNoNode);
  EXPECT_EQ(from(cluster::FailNode{NodeId(77), Incarnation(7), ""}), cluster::kNoNode);
  view.nodes[4].status = cluster::NodeStatus::kDown;
  // A start of it may have been proposed before, and be committed first.
  EXPECT_EQ(from(cluster::RegisterNode{info}), node);
  EXPECT_EQ(from(cluster::FailNode{node, Incarnation(7), ""}), node);
  view.nodes[4].status = cluster::NodeStatus::kRemoved;
  EXPECT_EQ(from(cluster::RegisterNode{info}), cluster::kNoNode);
}

class LeaseFenceTest : public ::testing::Test {
 protected:
  // Renewals wait in asked_.
  LeaseFenceTest()
      : fence_(&clock_, kLeaseNs,
               [this](LeaseFence::Granted done) { asked_.push_back(std::move(done)); }) {}
  bool Passes() {
    ++captured_;
    return fence_.Decide(captured_) == captured_;
  }

  TestClock clock_;
  std::vector<LeaseFence::Granted> asked_;
  LeaseFence fence_;
  std::uint64_t captured_ = 0;
};

TEST_F(LeaseFenceTest, L1ALeaseCountsFromWhenItsRenewalWasSent) {
  EXPECT_FALSE(RepliesPassWithoutALease());
  EXPECT_FALSE(Passes());
  fence_.Progress(clock_.now_ns);
  EXPECT_FALSE(Passes()) << "nobody granted anything";
  clock_.now_ns += 60 * kMsNs;
  asked_[0](absl::OkStatus());
  EXPECT_TRUE(Passes());
  clock_.now_ns += 40 * kMsNs - 1;
  EXPECT_TRUE(Passes());
  clock_.now_ns += 1;
  EXPECT_FALSE(Passes());
}

TEST_F(LeaseFenceTest, L1AGrantThatComesTooLateGivesNothing) {
  fence_.Progress(clock_.now_ns);
  clock_.now_ns += kLeaseNs;
  asked_[0](absl::OkStatus());
  EXPECT_FALSE(Passes());
}

TEST_F(LeaseFenceTest, WhatIsHeldPassesWithTheNextGrant) {
  EXPECT_EQ(fence_.Decide(1), 0u);
  EXPECT_EQ(fence_.Decide(2), 0u);
  fence_.Progress(clock_.now_ns);
  asked_[0](absl::OkStatus());
  EXPECT_EQ(fence_.Decide(3), 3u);
}

TEST_F(LeaseFenceTest, RenewsLongBeforeTheEndAndSoonerAfterARefusal) {
  for (int i = 0; i < 100; ++i) {
    fence_.Progress(clock_.now_ns);
    clock_.now_ns += kMsNs;
  }
  EXPECT_EQ(asked_.size(), 4u);
  asked_.clear();
  fence_.Progress(clock_.now_ns);
  asked_[0](absl::UnavailableError("no leader"));
  clock_.now_ns += 5 * kMsNs;
  fence_.Progress(clock_.now_ns);
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(LeaseFenceTest, AnAnswerThatComesWhenTheFenceIsGoneFindsNobody) {
  std::vector<LeaseFence::Granted> asked;
  {
    LeaseFence gone(&clock_, kLeaseNs,
                    [&](LeaseFence::Granted done) { asked.push_back(std::move(done)); });
    gone.Progress(clock_.now_ns);
  }
  ASSERT_EQ(asked.size(), 1u);
  asked[0](absl::OkStatus());  // touches nothing of it: sanitizers would tell
}

TEST(LeaseMessage, WhatIsNoRenewalIsRefused) {
  const std::string good = EncodeRenewal({Incarnation(5), 9});
  ASSERT_OK_AND_ASSIGN(const LeaseRenewal renewal, DecodeRenewal(good));
  EXPECT_EQ(renewal.incarnation, Incarnation(5));
  EXPECT_EQ(renewal.view_epoch, 9u);
  EXPECT_THAT(DecodeRenewal(good.substr(1)).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeRenewal(good + "x").status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::node
