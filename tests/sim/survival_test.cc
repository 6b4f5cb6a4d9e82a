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
