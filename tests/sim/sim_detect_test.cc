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

// It came up after attempts that were a second apart, as its peer was away for long. Whoever is
// elected meanwhile has less patience for who is not connected.
TEST(SimConnectTest, L4AConnectionThatIsLostSoonIsMadeAnewAtOnceThoughItCameUpLate) {
  ClusterOptions options;
  options.seed = 7;
  SimValues run(options);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  const NodeId from(6);
  const NodeId to(7);
  cluster.CrashNode(to);
  run.Pass(4'000 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(to).ok());
  node::ControlPort& control = cluster.nodes()[from.value()]->node().control();
  ASSERT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 2'000 * SimValues::kMs,
                               [&] { return control.TransportTo(to) != "down"; }));
  control.Break(to);
  cluster.nodes()[from.value()]->Touch();
  run.Pass(50 * SimValues::kMs);
  EXPECT_NE(control.TransportTo(to), "down");
}

TEST(SimConnectTest, L4WhoRegistersIsConnectedAtOnceHoweverLongItWasAway) {
  ClusterOptions options;
  options.seed = 7;
  SimValues run(options);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  const NodeId away(7);
  cluster.CrashNode(away);
  // One whose attempts are not those of the others.
  run.Pass(1'500 * SimValues::kMs);
  cluster.CrashNode(NodeId(6));
  ASSERT_TRUE(cluster.RestartNode(NodeId(6)).ok());
  run.Pass(1'500 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(away).ok());
  const Incarnation present = cluster.nodes()[away.value()]->info().incarnation;
  ASSERT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 3'000 * SimValues::kMs, [&] {
    return cluster.view().nodes[away.value()].incarnation == present;
  }));
  run.Pass(50 * SimValues::kMs);
  EXPECT_NE(cluster.nodes()[6]->node().control().TransportTo(away), "down");
}

// L8: a start that connected and went without a word, before it registered, keeps its connection;
// the next one is refused by it.
TEST(SimConnectTest, L8AStartThatIsGoneWithoutAWordKeepsNobodyOut) {
  ClusterOptions options;
  options.seed = 7;
  SimValues run(options);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  rdma::sim::SimNetwork& network = cluster.network();
  const NodeId id(6);
  const NodeId other(8);
  cluster.CrashNode(id);
  run.Pass(100 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(id).ok());
  const auto part = [&](std::uint64_t until_ns) {
    for (const std::shared_ptr<SimNode>& node : cluster.nodes()) {
      if (node->info().id == id || node->info().id == other) continue;
      network.Block(cluster.nodes()[id.value()]->host(), node->host(), until_ns);
      network.Block(node->host(), cluster.nodes()[id.value()]->host(), until_ns);
    }
  };
  part(network.now_ns() + 2'000 * SimValues::kMs);
  const auto connected = [&] {
    return cluster.nodes()[id.value()]->node().control().TransportTo(other) != "down";
  };
  ASSERT_TRUE(cluster.RunUntil(network.now_ns() + 1'500 * SimValues::kMs, connected));
  network.options().crash_notice_ns = 0;
  cluster.CrashNode(id);
  run.Pass(10 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(id).ok());
  EXPECT_TRUE(cluster.RunUntil(network.now_ns() + 10'000 * SimValues::kMs, connected));
}

// It has asked the leader, which waits for the lease of its former start, and stands still then.
TEST(SimConnectTest, L1WhoComesBackRegistersThoughTheLeaderThatItAskedStandsStill) {
  ClusterOptions options;
  options.seed = 7;
  SimValues run(options);
  ASSERT_NO_FATAL_FAILURE(run.Start());
  SimCluster& cluster = run.cluster();
  run.Pass(1000 * SimValues::kMs);
  const NodeId leader = cluster.nodes()[0]->node().membership().leader();
  const NodeId victim(leader.value() == 1 ? 2 : 1);
  cluster.CrashNode(victim);
  run.Pass(SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(victim).ok());
  run.Pass(40 * SimValues::kMs);
  cluster.nodes()[leader.value()]->Pause(cluster.network().now_ns() + 6'000 * SimValues::kMs);
  const Incarnation present = cluster.nodes()[victim.value()]->info().incarnation;
  EXPECT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 2'000 * SimValues::kMs, [&] {
    return cluster.view().nodes[victim.value()].incarnation == present;
  }));
}

INSTANTIATE_TEST_SUITE_P(
    Times, SimDetectTest,
    testing::Combine(testing::Values(Times{1, 5, 5}, Times{2, 5, 5}, Times{3, 6, 5},
                                     Times{10, 20, 13}, Times{25, 50, 33}),
                     testing::Values(node::FenceKind::kLease, node::FenceKind::kCheck)));

}  // namespace
}  // namespace ring::sim
