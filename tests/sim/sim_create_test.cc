// Memgests that are made while nodes start again.
#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// The cluster does not know yet that the node lost what it had. A memgest that became ACTIVE now
// would count on its former start, which never had any of it, as if it had been written into.
TEST(SimCreateTest, G11AMemgestDoesNotBecomeActiveByWordOfALaterStart) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    bool asked = false;
    ClusterOptions options;
    options.seed = seed;
    SimCluster cluster(options);
    ASSERT_TRUE(cluster.Open().ok());
    const NodeId leader = cluster.nodes()[0]->node().membership().leader();
    NodeId node = cluster.view().Coordinator(GroupId(0), ShardId(1));
    if (node == leader) node = cluster.view().Coordinator(GroupId(0), ShardId(2));
    const Incarnation former = cluster.view().nodes[node.value()].incarnation;
    cluster.CrashNode(node);
    ASSERT_TRUE(cluster.RestartNode(node).ok());
    protocol::MemgestDescriptor memgest;
    memgest.name = "MADE";
    memgest.r = 2;
    const auto is_active = [&] {
      const protocol::MemgestDescriptor* const made = cluster.view().FindMemgest("MADE");
      return made != nullptr && made->state == protocol::MemgestState::kActive;
    };
    const auto missed_or_active = [&] {
      if (!asked) {  // again and again, until it is there
        asked = true;
        cluster.admin().Create(memgest, [&](const absl::Status&) { asked = false; });
      }
      return is_active() || !cluster.view().HoldsRole(node) ||
             cluster.view().nodes[node.value()].incarnation != former;
    };
    const std::uint64_t now_ns = cluster.network().now_ns();
    ASSERT_TRUE(cluster.RunUntil(now_ns + 10'000 * kMs, missed_or_active));
    EXPECT_FALSE(is_active());
    EXPECT_TRUE(cluster.RunUntil(now_ns + 40'000 * kMs, [&] {
      missed_or_active();
      return is_active();
    }));
  }
}

}  // namespace
}  // namespace ring::sim
