// Scrubs of a simulated cluster that are stopped and started again under load.
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/sanitized.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// A block that was asked for by a scrub that ended meanwhile must not be taken for the next one's.
TEST(SimScrub, S2BlocksThatComeLateForAStoppedScrubDoNotLandInTheNext) {
  int finished = 0;
  for (std::uint64_t seed = 1; seed <= (testing::kSanitized ? 2 : 8); ++seed) {
    ClusterOptions options;
    options.seed = seed;
    options.block_size = 16 * 1024;
    SimCluster cluster(options);
    ASSERT_TRUE(cluster.Open().ok());
    ASSERT_TRUE(cluster.AddClient(4, 100'000, false).ok());
    rdma::sim::SimNetwork& network = cluster.network();
    const auto pass = [&](std::uint64_t ns) {
      cluster.RunUntil(
          network.now_ns() + ns, [] { return false; }, ns);
    };
    // Something in every block that a parity may ask for.
    for (const char* memgest : {"SRS21", "SRS31", "SRS32"}) {
      for (int key = 100; key < 190; ++key) {
        Operation put;
        put.kind = OpKind::kPut;
        put.key = key;
        put.value = cluster.workload().NextValue();
        put.size = 1000;
        put.memgest = cluster.nodes()[0]->node().view()->FindMemgest(memgest)->id;
        put.patience_ns = kDeadlineLongNs;
        cluster.clients()[0]->Ask(put);
      }
    }
    pass(10 * kMs);
    SimAdmin admin(&cluster.nodes(), 5);
    std::uint64_t id = 0;
    for (int round = 0; round < 12; ++round) {
      admin.StartScrub(++id);
      admin.PollScrub();
      pass(20'000 + cluster.random().Below(kMs));
      // What one coordinator sends to one reader is held up until the next scrub is at work.
      const rdma::sim::HostId owner = cluster.nodes()[cluster.random().Below(5)]->host();
      const rdma::sim::HostId reader = cluster.nodes()[cluster.random().Below(5)]->host();
      if (owner != reader) network.Block(owner, reader);
      pass(kMs / 2);
      admin.StopScrub();
      pass(kMs / 10);
      admin.StartScrub(++id);
      pass(kMs);
      network.HealAll();
      cluster.RunUntil(
          network.now_ns() + 4000 * kMs,
          [&] {
            admin.PollScrub();
            return admin.scrub_done() || !admin.scrub_status().ok();
          },
          kMs);
      if (admin.scrub_done()) {
        ++finished;
        EXPECT_EQ(admin.scrub_report().mismatches, 0u)
            << "seed=" << seed << " " << ::testing::PrintToString(admin.scrub_report().details);
      }
      admin.StopScrub();
      pass(kMs);
    }
  }
  EXPECT_GT(finished, testing::kSanitized ? 5 : 20);
}

}  // namespace
}  // namespace ring::sim
