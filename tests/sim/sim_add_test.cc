// A node that the configuration does not name, on the simulated cluster (F12).
#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

// The spare is lost, then a coordinator: the added node has its roles then, and its values.
TEST(SimAddTest, F12AnAddedNodeTakesOverWhatIsLost) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    ClusterOptions options;
    options.seed = seed;
    options.node_count = 6;
    SimValues run(options);
    ASSERT_NO_FATAL_FAILURE(run.Start());
    SimCluster& cluster = run.cluster();
    const absl::StatusOr<NodeId> added = cluster.AddNode();
    ASSERT_TRUE(added.ok()) << added.status();
    ASSERT_EQ(*added, NodeId(6));
    ASSERT_TRUE(run.Await(
        [&] { return cluster.view().spare_count() == 2 && cluster.nodes()[6]->node().ready(); }));
    cluster.CrashNode(NodeId(5));
    ASSERT_TRUE(
        run.Await([&] { return cluster.view().nodes[5].status == cluster::NodeStatus::kDown; }));
    cluster.CrashNode(NodeId(static_cast<std::uint32_t>(seed)));
    ASSERT_NO_FATAL_FAILURE(run.PutAll());
    ASSERT_NO_FATAL_FAILURE(run.ExpectEverything());
    EXPECT_TRUE(cluster.view().HoldsRole(NodeId(6)));
    // Another start of it joins as any node's does.
    cluster.CrashNode(NodeId(6));
    ASSERT_TRUE(cluster.RestartNode(NodeId(6)).ok());
    ASSERT_TRUE(run.Await([&] { return cluster.view().HoldsRole(NodeId(6)); }));
  }
}

}  // namespace
}  // namespace ring::sim
