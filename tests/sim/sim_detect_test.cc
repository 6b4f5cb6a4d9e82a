// How soon a lost coordinator is missed and replaced, down to the shortest detection there is.
#include <algorithm>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

struct Times {
  std::uint32_t heartbeat_ms;
  std::uint32_t detect_ms;
  std::uint32_t lease_ms;
};

class SimDetectTest : public testing::TestWithParam<std::tuple<Times, node::FenceKind>> {
 protected:
  static ClusterOptions Options() {
    const auto& [times, fence] = GetParam();
    ClusterOptions options;
    options.seed = 7;
    options.heartbeat_ms = times.heartbeat_ms;
    options.detect_ms = times.detect_ms;
    options.lease_ms = times.lease_ms;
    options.fence = fence;
    return options;
  }
};

TEST_P(SimDetectTest, L1ALostCoordinatorIsReplacedWithinItsTimeAndNobodyElseIs) {
  const auto& [times, fence] = GetParam();
  SimValues run(Options());
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  run.Pass(1000 * SimValues::kMs);
  // Who leads stays: an election would come on top.
  NodeId victim = cluster.view().Coordinator(GroupId(0), ShardId(0));
  if (victim == cluster.nodes()[0]->node().membership().leader())
    victim = cluster.view().Coordinator(GroupId(0), ShardId(1));
  const std::uint64_t crashed_ns = cluster.network().now_ns();
  cluster.CrashNode(victim);
  ASSERT_TRUE(cluster.RunUntil(
      crashed_ns + 10'000 * SimValues::kMs, [&] { return !cluster.view().HoldsRole(victim); },
      SimValues::kMs / 10));
  const std::uint64_t replaced_ns = cluster.network().now_ns() - crashed_ns;
  const std::uint64_t waits_ms =
      times.detect_ms + (fence == node::FenceKind::kLease ? times.lease_ms + 5 : 0);
  EXPECT_LE(replaced_ns, (waits_ms + times.heartbeat_ms + 5) * SimValues::kMs);
  ASSERT_NO_FATAL_FAILURE(run.ExpectEverything());
  for (const cluster::NodeInfo& node : cluster.view().nodes)
    EXPECT_EQ(node.status == cluster::NodeStatus::kUp, node.id != victim) << node.name;
}

// A connection that ends is a hint, and not yet a lost node.
TEST_P(SimDetectTest, L4AConnectionThatBreaksIsMadeAnewAndNobodyIsFailed) {
  SimValues run(Options());
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  run.Pass(1000 * SimValues::kMs);
  const NodeId leader = cluster.nodes()[0]->node().membership().leader();
  const auto break_link = [&](NodeId from, NodeId to) {
    SimNode& node = *cluster.nodes()[from.value()];
    node.node().control().Break(to);
    node.Touch();
    run.Pass(100 * SimValues::kMs);
  };
  for (const cluster::NodeInfo& peer : cluster.view().nodes) {
    if (peer.id == leader) continue;
    break_link(peer.id, leader);
    break_link(leader, peer.id);
  }
  for (const cluster::NodeInfo& node : cluster.view().nodes)
    EXPECT_EQ(node.status, cluster::NodeStatus::kUp) << node.name;
}

TEST_P(SimDetectTest, L1TwoNodesThatAreLostOneBehindTheOtherAreBothMissedInTime) {
  const auto& [times, fence] = GetParam();
  SimValues run(Options());
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  run.Pass(1000 * SimValues::kMs);
  const NodeId leader = cluster.nodes()[0]->node().membership().leader();
  std::vector<NodeId> victims;
  for (int shard = 0; victims.size() < 2; ++shard) {
    const NodeId node =
        cluster.view().Coordinator(GroupId(0), ShardId(static_cast<std::uint16_t>(shard)));
    if (node != leader) victims.push_back(node);
  }
  cluster.CrashNode(victims[0]);
  run.Pass(2 * SimValues::kMs);
  cluster.CrashNode(victims[1]);
  const std::uint64_t crashed_ns = cluster.network().now_ns();
  // A proposal waits for the one before it no longer than a detection takes.
  const std::uint64_t waits_ms = 2 * times.detect_ms + times.heartbeat_ms + 5 +
                                 (fence == node::FenceKind::kLease ? times.lease_ms + 5 : 0);
  EXPECT_TRUE(cluster.RunUntil(
      crashed_ns + waits_ms * SimValues::kMs,
      [&] {
        return !cluster.view().HoldsRole(victims[0]) && !cluster.view().HoldsRole(victims[1]);
      },
      SimValues::kMs / 10));
}

INSTANTIATE_TEST_SUITE_P(
    Times, SimDetectTest,
    testing::Combine(testing::Values(Times{1, 5, 5}, Times{2, 5, 5}, Times{3, 6, 5},
                                     Times{10, 20, 13}, Times{25, 50, 33}),
                     testing::Values(node::FenceKind::kLease, node::FenceKind::kCheck)));

}  // namespace
}  // namespace ring::sim
