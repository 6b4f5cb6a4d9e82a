// Coordinators of coded values that die in the midst of a put: S1.
#include <algorithm>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

ClusterOptions Options(std::uint64_t seed) {
  ClusterOptions options;
  options.seed = seed;
  options.node_count = 6;
  options.block_size = 16 * 1024;
  protocol::MemgestDescriptor memgest;
  memgest.name = "SRS32";
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.r = 0;
  memgest.k = 3;
  memgest.m = 2;
  options.memgests = {memgest};
  return options;
}

// The key's coordinator dies when the put's entry has come to these parities and no further.
void DieInAPut(SimValues& run, int key, std::uint32_t parities) {
  SimCluster& cluster = run.cluster();
  const cluster::Place place = run.PlaceOf(key);
  const std::vector<NodeId>& roles = cluster.view().groups[place.group.value()].roles;
  SimNode& owner = *cluster.nodes()[roles[place.shard.value()].value()];
  for (std::size_t j = 0; j < 2; ++j) {
    if ((parities >> j & 1) != 0) continue;
    SimNode& parity = *cluster.nodes()[roles[3 + j].value()];
    cluster.network().Block(owner.host(), parity.host());
  }
  run.Put(key);
  run.Pass(2 * SimValues::kMs);
  owner.Crash();
  cluster.network().HealAll();
}

// Members of the place's shard that had to begin anew, as its coordinators tell.
int JoinedCount(SimValues& run, const cluster::Place& place) {
  int count = 0;
  for (const std::shared_ptr<SimNode>& node : run.cluster().nodes()) {
    if (!node->up()) continue;
    for (const node::Event& event : node->node().events().Since(0)) {
      count += event.kind == node::EventKind::kJoined && event.group == place.group.value() &&
                       event.shard == place.shard.value()
                   ? 1
                   : 0;
    }
  }
  return count;
}

// ... and the parity that lacks the put gets it, and goes on (step 5 of an epoch change; S8).
TEST(SimDecodeTest, S1APutThatReachedSomeParitiesDoesNotTearItsNeighbours) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (std::uint32_t parities = 0; parities < 4; ++parities) {
      SCOPED_TRACE(testing::Message() << "seed=" << seed << " parities=" << parities);
      SimValues run(Options(seed));
      ASSERT_NO_FATAL_FAILURE(run.Start());
      const int key = SimValues::kFirstKey + static_cast<int>(seed);
      DieInAPut(run, key, parities);
      ASSERT_NO_FATAL_FAILURE(run.ExpectEverything());
      EXPECT_EQ(JoinedCount(run, run.PlaceOf(key)), 0);
    }
  }
}

}  // namespace
}  // namespace ring::sim
