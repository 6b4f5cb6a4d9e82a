// Control connections: when one that was lost, or whose other end was away, is made anew.
#include <memory>

#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

class SimConnectTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(run_.Start()); }
  static ClusterOptions Options() {
    ClusterOptions options;
    options.seed = 7;
    return options;
  }

  SimValues run_{Options()};
};

// It came up after attempts that were a second apart, as its peer was away for long. Whoever is
// elected meanwhile has less patience for who is not connected.
TEST_F(SimConnectTest, L4AConnectionThatIsLostSoonIsMadeAnewAtOnceThoughItCameUpLate) {
  SimCluster& cluster = run_.cluster();
  const NodeId from(6);
  const NodeId to(7);
  cluster.CrashNode(to);
  run_.Pass(4'000 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(to).ok());
  node::ControlPort& control = cluster.nodes()[from.value()]->node().control();
  ASSERT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 2'000 * SimValues::kMs,
                               [&] { return control.TransportTo(to) != "down"; }));
  control.Break(to);
  cluster.nodes()[from.value()]->Touch();
  run_.Pass(50 * SimValues::kMs);
  EXPECT_NE(control.TransportTo(to), "down");
}

TEST_F(SimConnectTest, L4WhoRegistersIsConnectedAtOnceHoweverLongItWasAway) {
  SimCluster& cluster = run_.cluster();
  const NodeId away(7);
  cluster.CrashNode(away);
  // One whose attempts are not those of the others.
  run_.Pass(1'500 * SimValues::kMs);
  cluster.CrashNode(NodeId(6));
  ASSERT_TRUE(cluster.RestartNode(NodeId(6)).ok());
  run_.Pass(1'500 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(away).ok());
  const Incarnation present = cluster.nodes()[away.value()]->info().incarnation;
  ASSERT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 3'000 * SimValues::kMs, [&] {
    return cluster.view().nodes[away.value()].incarnation == present;
  }));
  run_.Pass(50 * SimValues::kMs);
  EXPECT_NE(cluster.nodes()[6]->node().control().TransportTo(away), "down");
}

// L8: a start that connected and went without a word, before it registered, keeps its connection;
// the next one is refused by it.
TEST_F(SimConnectTest, L8AStartThatIsGoneWithoutAWordKeepsNobodyOut) {
  SimCluster& cluster = run_.cluster();
  rdma::sim::SimNetwork& network = cluster.network();
  const NodeId id(6);
  const NodeId other(8);
  cluster.CrashNode(id);
  run_.Pass(100 * SimValues::kMs);
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
  run_.Pass(10 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(id).ok());
  EXPECT_TRUE(cluster.RunUntil(network.now_ns() + 10'000 * SimValues::kMs, connected));
}

// A node stands still until the leader has no room for anything more at it, and is gone without a
// word: the leader has nothing under way there that could fail. It has to connect the next start.
TEST_F(SimConnectTest, L8WhoWasGoneWithoutAWordAndWithoutRoomIsMissed) {
  SimCluster& cluster = run_.cluster();
  rdma::sim::SimNetwork& network = cluster.network();
  const NodeId id(8);
  const NodeId leader = cluster.nodes()[0]->node().membership().leader();
  ASSERT_NE(leader, cluster::kNoNode);
  SimNode& leads = *cluster.nodes()[leader.value()];
  cluster.nodes()[id.value()]->Pause(network.now_ns() + 1'000 * SimValues::kMs);
  for (std::uint32_t i = 0; i < 2 * node::ControlLink::kWindow; ++i) {
    leads.node().control().Call(id, node::ControlType::kPing, "", 100 * SimValues::kMs,
                                [](const absl::StatusOr<std::string>&) {});
  }
  leads.Touch();
  run_.Pass(SimValues::kMs);
  network.options().crash_notice_ns = 0;
  cluster.CrashNode(id);
  run_.Pass(1'000 * SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(id).ok());
  const auto ready = [&] { return cluster.nodes()[id.value()]->node().ready(); };
  EXPECT_TRUE(cluster.RunUntil(network.now_ns() + 10'000 * SimValues::kMs, ready))
      << cluster.nodes()[id.value()]->node().Missing();
}

// It has asked the leader, which waits for the lease of its former start, and stands still then.
TEST_F(SimConnectTest, L1WhoComesBackRegistersThoughTheLeaderThatItAskedStandsStill) {
  SimCluster& cluster = run_.cluster();
  run_.Pass(1000 * SimValues::kMs);
  const NodeId leader = cluster.nodes()[0]->node().membership().leader();
  const NodeId victim(leader.value() == 1 ? 2 : 1);
  cluster.CrashNode(victim);
  run_.Pass(SimValues::kMs);
  ASSERT_TRUE(cluster.RestartNode(victim).ok());
  run_.Pass(40 * SimValues::kMs);
  cluster.nodes()[leader.value()]->Pause(cluster.network().now_ns() + 6'000 * SimValues::kMs);
  const Incarnation present = cluster.nodes()[victim.value()]->info().incarnation;
  EXPECT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 2'000 * SimValues::kMs, [&] {
    return cluster.view().nodes[victim.value()].incarnation == present;
  }));
}

}  // namespace
}  // namespace ring::sim
