// How soon a lost coordinator is missed and replaced, down to the shortest detection there is.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

struct Times {
  std::uint32_t heartbeat_ms;
  std::uint32_t detect_ms;
  std::uint32_t lease_ms;
};

class SimDetectTest : public testing::TestWithParam<std::tuple<Times, node::FenceKind>> {};

TEST_P(SimDetectTest, L1ALostCoordinatorIsReplacedWithinItsTimeAndNobodyElseIs) {
  const auto& [times, fence] = GetParam();
  ClusterOptions options;
  options.seed = 7;
  options.heartbeat_ms = times.heartbeat_ms;
  options.detect_ms = times.detect_ms;
  options.lease_ms = times.lease_ms;
  options.fence = fence;
  SimValues run(options);
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

INSTANTIATE_TEST_SUITE_P(
    Times, SimDetectTest,
    testing::Combine(testing::Values(Times{1, 5, 5}, Times{2, 5, 5}, Times{3, 6, 5},
                                     Times{10, 20, 13}, Times{25, 50, 33}),
                     testing::Values(node::FenceKind::kLease, node::FenceKind::kCheck)));

}  // namespace
}  // namespace ring::sim
