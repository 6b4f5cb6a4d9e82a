// Nodes that give their roles away, and what may happen to them meanwhile.
#include <cstdint>

#include "gtest/gtest.h"
#include "ring/cluster/cluster_command.h"
#include "ring/cluster/cluster_state.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/cluster/cluster_state_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using DrainStateTest = ClusterStateFixture;

TEST_F(DrainStateTest, DrainingNeedsASpareAndKeepsTheNodeUp) {
  ASSERT_OK(Do(DrainNode{NodeId(0)}).status);
  EXPECT_EQ(view().nodes[0].status, NodeStatus::kDraining);
  EXPECT_EQ(group(0).roles[0], NodeId(5));
  EXPECT_FALSE(Do(DrainNode{NodeId(0)}).changed);
  ExpectRefused(DrainNode{NodeId(1)}, "no spare");
  ExpectRefused(DrainNode{NodeId(9)}, "node=9", absl::StatusCode::kNotFound);
  // Draining outlives a restart, and a draining node gets no role.
  ASSERT_OK(Do(Register(0, 200)).status);
  EXPECT_EQ(view().nodes[0].status, NodeStatus::kDraining);
  Fail(1, 101);
  EXPECT_FALSE(view().HoldsRole(NodeId(0)));
  ExpectRefused(DrainNode{NodeId(1)}, "down");
}

// A failure is no operator's word: neither the start that was only silent nor the next one is a
// spare.
TEST_F(DrainStateTest, ANodeThatWasDrainingWhenItFailedDrainsWhenItComesBack) {
  ASSERT_OK(Do(DrainNode{NodeId(0)}).status);
  for (const std::uint64_t start : {100u, 300u}) {
    const Incarnation before = view().nodes[0].incarnation;
    ASSERT_OK(Do(FailNode{NodeId(0), before, "silent"}).status);
    EXPECT_EQ(view().nodes[0].status, NodeStatus::kDown);
    EXPECT_FALSE(Do(FailNode{NodeId(0), before, "silent"}).changed);
    // What is remembered goes with the view.
    ASSERT_OK_AND_ASSIGN(const View read, DecodeView(EncodeView(view())));
    EXPECT_EQ(read, view());
    ASSERT_OK(Do(Register(0, start)).status);
    EXPECT_EQ(view().nodes[0].status, NodeStatus::kDraining) << start;
  }
  Fail(1, 101);
  EXPECT_FALSE(view().HoldsRole(NodeId(0)));
  EXPECT_EQ(group(0).roles[1], kNoNode);
}

// Removed and started again, it is a node like any other.
TEST_F(DrainStateTest, ADrainEndsWithTheRemovalOfTheNode) {
  ASSERT_OK(Do(DrainNode{NodeId(0)}).status);
  ASSERT_OK(Do(FailNode{NodeId(0), Incarnation(100), "pulled"}).status);
  ASSERT_OK(Do(RemoveNode{NodeId(0)}).status);
  ASSERT_OK(Do(Register(0, 300)).status);
  EXPECT_EQ(view().nodes[0].status, NodeStatus::kUp);
}

}  // namespace
}  // namespace ring::cluster
