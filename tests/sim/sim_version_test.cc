// Nodes of another release: they are told why nobody talks to them, and come in once they are
// replaced.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/protocol/hello.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

TEST(SimVersion, F14AStartThatSpeaksAnotherProtocolIsRefusedAndSaysWhy) {
  ClusterOptions options;
  options.seed = 14;
  SimCluster cluster(options);
  ASSERT_TRUE(cluster.Open().ok());
  rdma::sim::SimNetwork& network = cluster.network();
  cluster.CrashNode(NodeId(6));
  ASSERT_TRUE(cluster.RestartNode(NodeId(6)).ok());
  SimNode& node = *cluster.nodes()[6];
  node.Speak(protocol::kProtocolVersion + 1);
  cluster.RunUntil(network.now_ns() + kSecond, [] { return false; });
  EXPECT_FALSE(node.node().ready());
  EXPECT_THAT(node.node().Missing(), ::testing::HasSubstr("use the same release on both sides"));
  EXPECT_NE(cluster.view().nodes[6].incarnation, node.info().incarnation);
  node.Speak(protocol::kProtocolVersion);
  EXPECT_TRUE(cluster.RunUntil(network.now_ns() + 5 * kSecond, [&] {
    return cluster.view().nodes[6].incarnation == node.info().incarnation && node.node().ready();
  })) << node.node().Missing();
  EXPECT_EQ(network.faults().by_class[14], 1u);
}

}  // namespace
}  // namespace ring::sim
