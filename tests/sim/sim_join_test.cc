// How a node that starts anew gets its part in the consensus, whoever leads meanwhile.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// The leader adds a node that started anew, and only that node hears of it. The next leader never
// had the entry and knows the node's former start alone: it sends nothing to the present one.
TEST(SimJoinTest, P104AServerWhoseAdditionWasRolledBackAsksAgain) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    ClusterOptions options;
    options.seed = seed;
    SimCluster cluster(options);
    ASSERT_TRUE(cluster.Open().ok());
    rdma::sim::SimNetwork& network = cluster.network();
    const auto await = [&](absl::FunctionRef<bool()> condition, std::uint64_t step_ns) {
      return cluster.RunUntil(network.now_ns() + 10 * kSecond, condition, step_ns);
    };
    const auto membership = [&](NodeId id) -> const node::Membership& {
      return cluster.nodes()[id.value()]->node().membership();
    };
    const NodeId first = membership(NodeId(0)).leader();
    ASSERT_NE(first, cluster::kNoNode);
    const NodeId node(first == NodeId(2) ? 1 : 2);
    cluster.CrashNode(node);
    ASSERT_TRUE(await(
        [&] { return cluster.view().nodes[node.value()].status == cluster::NodeStatus::kDown; },
        1'000'000));
    ASSERT_EQ(membership(first).leader(), first);
    ASSERT_TRUE(cluster.RestartNode(node).ok());
    ASSERT_TRUE(await([&] { return membership(node).replica() != nullptr; }, 1'000));
    ASSERT_TRUE(membership(node).replica()->configuration().empty());
    for (const std::shared_ptr<SimNode>& other : cluster.nodes()) {
      const NodeId id = other->info().id;
      if (id != node && id != first)
        network.Block(cluster.nodes()[first.value()]->host(), other->host());
    }
    const auto server = [&] { return membership(node).replica()->raft().id(); };
    ASSERT_TRUE(await(
        [&] { return membership(node).replica()->configuration().Contains(server()); }, 100'000));
    const consensus::Term term = membership(node).replica()->term();
    const consensus::ServerId added = server();
    NodeId second = cluster::kNoNode;
    ASSERT_TRUE(await(
        [&] {
          for (const std::shared_ptr<SimNode>& other : cluster.nodes()) {
            if (!other->up()) continue;
            const node::Membership& one = other->node().membership();
            if (one.leads() && one.replica()->term() > term) second = other->info().id;
          }
          return second != cluster::kNoNode;
        },
        1'000'000));
    ASSERT_NE(second, first);
    ASSERT_FALSE(membership(second).replica()->configuration().Contains(added));
    network.HealAll();
    EXPECT_TRUE(await([&] { return cluster.nodes()[node.value()]->node().ready(); }, 1'000'000))
        << cluster.nodes()[node.value()]->node().Missing();
    EXPECT_EQ(server(), added);  // it knows what it said: it is the same one
    EXPECT_TRUE(await([&] { return membership(node).replica()->configuration().IsVoter(added); },
                      1'000'000));
    EXPECT_EQ(membership(node).replica()->configuration().voters.size(), 5u);
  }
}

}  // namespace
}  // namespace ring::sim
