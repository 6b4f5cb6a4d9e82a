// A member that was taken for lost while it had the last copy, in whole clusters (E8).
#include <cstdint>

#include "gtest/gtest.h"
#include "tests/sim/false_alarm.h"
#include "tests/sim/protection.h"
#include "tests/sim/run_clean.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

ClusterOptions Options(std::uint64_t seed) {
  ClusterOptions options;
  options.seed = seed;
  options.memgests.emplace_back();
  options.memgests.back().name = "REP2";
  options.memgests.back().r = 2;
  return options;
}

// Role 3 of a group has the copies of all of its shards. In the group where that node has role 4,
// role 3 is the coordinator's that is lost here.
TEST(SimReturn, E8WhoWasOnlyMissedHasItsRoleBackAndTheStoppedShardEverything) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SimValues run(Options(seed));
    ASSERT_NO_FATAL_FAILURE(run.Start());
    SimCluster& cluster = run.cluster();
    run.Pass(1000 * SimValues::kMs);
    const NodeId missed = cluster.view().groups[0].roles[3];
    FalseAlarm alarm(&cluster, FaultOptions());
    cluster.CrashNode(cluster.view().groups[0].roles[2]);
    alarm.Begin(missed, cluster.random());
    const auto given_back = [&] {
      alarm.Act();
      return cluster.network().faults().by_kind["F5 roles given back"] > 0;
    };
    EXPECT_TRUE(cluster.RunUntil(cluster.network().now_ns() + 5'000 * SimValues::kMs, given_back,
                                 SimValues::kMs / 10));
    EXPECT_EQ(cluster.view().groups[0].roles[3], missed);
    const auto excused = [](const protocol::MemgestDescriptor&) { return false; };
    EXPECT_TRUE(run.Await([&] { return Unprotected(cluster, excused).empty(); }));
    ASSERT_NO_FATAL_FAILURE(run.ExpectEverything());
  }
}

// Under all other faults. Where the role does not go back in time the shard stays stopped.
TEST(SimReturn, E8RolesGoBackUnderFaults) {
  RunOptions options;
  options.faults.f5_alarm_run_one_in = 1;
  std::uint64_t given_back = 0;
  // One alarm of about three ends so.
  for (options.seed = 25; given_back == 0 && options.seed <= 84; ++options.seed)
    given_back += RunClean(options).faults.by_kind["F5 roles given back"];
  EXPECT_GT(given_back, 0u);
}

}  // namespace
}  // namespace ring::sim
