// The model of what a cluster may lose, from its Normal records.
#include "tests/sim/survival.h"

#include <set>

#include "gtest/gtest.h"
#include "tests/cluster/view_builders.h"

namespace ring::sim {
namespace {

// Roles of every shard are held by nodes 0..4 by number of the role, in one group.
class SurvivalTest : public ::testing::Test {
 protected:
  explicit SurvivalTest(std::vector<protocol::MemgestDescriptor> memgests =
                            {cluster::Rep("REP3", 3), cluster::Srs("SRS32", 3, 2)})
      : view_(cluster::InitialView(3, 2, cluster::TestNodes(6), std::move(memgests))) {
    view_.groups.resize(1);
    for (int i = 0; i < view_.s; ++i) {
      cluster::NormalRecord& normal = Normal(i);
      normal.epoch = Epoch(1);
      for (std::uint32_t role = 0; role < 5; ++role)
        normal.holders.push_back({NodeId(role), Incarnation(1)});
      for (const protocol::MemgestDescriptor& memgest : view_.memgests) {
        const std::uint32_t all = (1u << i) | 0b11000u;
        normal.memgests.push_back({memgest.id, all, all, false, {}});
      }
    }
  }
  cluster::NormalRecord& Normal(int shard) {
    return view_.groups[0].shards[static_cast<std::size_t>(shard)].normal;
  }
  bool Survives(const std::set<std::uint32_t>& lost) {
    return SurvivesWith(view_, [&](const cluster::Holder& holder) {
      return holder.node != cluster::kNoNode && !lost.contains(holder.node.value());
    });
  }

  // `missed`, one of `lost`, has its memory all the same.
  bool SurvivesWhenBack(const std::set<std::uint32_t>& lost, std::uint32_t missed) {
    const auto there = [&](const cluster::Holder& holder) {
      return holder.node != cluster::kNoNode && !lost.contains(holder.node.value());
    };
    return SurvivesWith(
        view_, there, [&](const cluster::Holder& holder) { return holder.node == NodeId(missed); });
  }

  cluster::View view_;
};

TEST_F(SurvivalTest, AQuorumMemgestLosesOneOfItsMembers) {
  EXPECT_TRUE(Survives({}));
  for (std::uint32_t node = 0; node < 5; ++node) EXPECT_TRUE(Survives({node})) << node;
  EXPECT_FALSE(Survives({3, 4})) << "both replicas of every shard";
  EXPECT_FALSE(Survives({0, 3})) << "coordinator and replica";
  EXPECT_TRUE(Survives({5})) << "it holds nothing";
}

TEST_F(SurvivalTest, WhatIsNotCompleteYetCannotBeTheLastCopy) {
  Normal(0).memgests[0].complete = 0b01000;  // of REP3 only role 3 has all values
  EXPECT_TRUE(Survives({0}));
  EXPECT_FALSE(Survives({3}));
}

class MissedTest : public SurvivalTest {
 protected:
  MissedTest() : SurvivalTest({cluster::Rep("REP2", 2)}) {
    view_.fail_over = true;
    view_.groups[0].epoch = Epoch(1);
    for (std::uint32_t role = 0; role < 5; ++role) {
      view_.groups[0].roles[role] = NodeId(role);
      view_.groups[0].incarnations[role] = Incarnation(1);
    }
    for (cluster::NodeInfo& node : view_.nodes) {
      node.status = cluster::NodeStatus::kUp;
      node.incarnation = Incarnation(1);
    }
    // REP2 is at role 3, but for its coordinators.
    for (int i = 0; i < view_.s; ++i) {
      cluster::MemgestNormal& set = Normal(i).memgests[0];
      set.active = set.complete = 1u << i | 0b01000u;
    }
  }
  // Node 5 has its role since.
  void Replace(std::size_t role) {
    view_.groups[0].roles[role] = NodeId(5);
    view_.groups[0].epoch = Epoch(2);
  }
};

TEST_F(MissedTest, E8WhoIsOnlyMissedHasItsValuesInARedundantRole) {
  EXPECT_FALSE(Survives({0, 3}));
  EXPECT_TRUE(SurvivesWhenBack({0, 3}, 3));
  EXPECT_FALSE(SurvivesWhenBack({0, 3}, 0)) << "it coordinated, and is no source any more";
}

TEST_F(MissedTest, E8AShardStaysStoppedOnceItsRoleProtectsAnother) {
  EXPECT_FALSE(StaysStopped(view_)) << "all serve";
  Replace(3);
  view_.groups[0].roles[0] = cluster::kNoNode;  // and its coordinator is lost
  view_.nodes[0].status = cluster::NodeStatus::kDown;
  EXPECT_FALSE(StaysStopped(view_)) << "node 3 may have its role back";
  Normal(1).epoch = Epoch(2);
  Normal(1).holders[3] = {NodeId(5), Incarnation(1)};
  EXPECT_TRUE(StaysStopped(view_));
}

class CodedSurvivalTest : public SurvivalTest {
 protected:
  CodedSurvivalTest() : SurvivalTest({cluster::Srs("SRS32", 3, 2)}) {}
};

TEST_F(CodedSurvivalTest, TwoParitiesBearTwoLosses) {
  EXPECT_TRUE(Survives({0, 1}));
  EXPECT_TRUE(Survives({0, 3}));
  EXPECT_TRUE(Survives({3, 4}));
  EXPECT_FALSE(Survives({0, 1, 2}));
}

TEST_F(CodedSurvivalTest, WhoIsOnlyMissedHasNoRows) {
  EXPECT_FALSE(SurvivesWhenBack({0, 1, 3}, 3));
}

TEST_F(CodedSurvivalTest, S7BlocksThatWaitToBeDecodedCountAsLost) {
  Normal(0).memgests[0].complete = 0b11000;
  EXPECT_TRUE(Survives({1}));
  EXPECT_FALSE(Survives({1, 2}));
  Normal(1).memgests[0].active_from = {{Role(4), 7}};  // S6: a parity in the making
  EXPECT_FALSE(Survives({1}));
}

TEST_F(CodedSurvivalTest, AShardThatNeverBeganPromisesNothing) {
  Normal(2) = cluster::NormalRecord();
  EXPECT_FALSE(Survives({}));
}

}  // namespace
}  // namespace ring::sim
