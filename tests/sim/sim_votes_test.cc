// Voters of whole clusters that keep what they decided over their starts, and disks that refuse it.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMs = 1'000'000;

class SimVotes : public ::testing::Test {
 protected:
  SimVotes() : cluster_(Options()) {}
  static ClusterOptions Options() {
    ClusterOptions options;
    options.seed = 10;
    options.voters_keep = true;
    return options;
  }
  bool Await(absl::FunctionRef<bool()> condition) {
    return cluster_.RunUntil(cluster_.network().now_ns() + 20 * kSecond, condition, kMs);
  }
  const node::Membership& At(NodeId id) {
    return cluster_.nodes()[id.value()]->node().membership();
  }
  NodeId Leader() { return At(NodeId(6)).leader(); }  // by one that votes on nothing
  NodeId AnyFollower() { return NodeId(Leader() == NodeId(2) ? 1 : 2); }

  SimCluster cluster_;
};

TEST_F(SimVotes, R10_6AVoterComesBackAsWhoItWasAndVotesOnNothingTwice) {
  ASSERT_TRUE(cluster_.Open().ok());
  const NodeId node = AnyFollower();
  const consensus::ServerId server = At(node).replica()->raft().id();
  const consensus::Term term = At(node).replica()->term();
  const consensus::LogIndex last = cluster_.DiskOf(node)->last().second;
  ASSERT_GT(last, 0u);
  cluster_.CrashNode(node);
  ASSERT_TRUE(cluster_.RestartNode(node).ok());
  // At once, before it hears of anybody.
  ASSERT_NE(At(node).replica(), nullptr);
  EXPECT_EQ(At(node).replica()->raft().id(), server);
  EXPECT_GE(At(node).replica()->term(), term);
  EXPECT_EQ(At(node).replica()->raft().log().last_index(), last);
  EXPECT_TRUE(Await([&] { return cluster_.nodes()[node.value()]->node().ready(); }));
  const consensus::Configuration& now = At(Leader()).replica()->configuration();
  EXPECT_TRUE(now.IsVoter(server));
  EXPECT_EQ(now.voters.size(), 5u);
}

TEST_F(SimVotes, R10_6AVoterWhoseDiskWasLostIsAnotherServer) {
  ASSERT_TRUE(cluster_.Open().ok());
  const NodeId node = AnyFollower();
  const consensus::ServerId server = At(node).replica()->raft().id();
  cluster_.CrashNode(node);
  cluster_.DiskOf(node)->Lose();
  ASSERT_TRUE(cluster_.RestartNode(node).ok());
  EXPECT_EQ(At(node).replica(), nullptr);  // it asks the others first
  ASSERT_TRUE(Await([&] { return cluster_.nodes()[node.value()]->node().ready(); }));
  const consensus::ServerId another = At(node).replica()->raft().id();
  EXPECT_NE(another, server);
  EXPECT_TRUE(Await([&] {
    const consensus::Configuration& now = At(Leader()).replica()->configuration();
    return now.IsVoter(another) && !now.Contains(server);
  }));
}

// All of them at once: nobody is left who knows but by its disk.
TEST_F(SimVotes, R10_6ATermIsNotVotedInAgainWhenAllVotersStartedAgain) {
  ASSERT_TRUE(cluster_.Open().ok());
  const consensus::Term term = At(Leader()).replica()->term();
  const std::uint32_t epoch = cluster_.view().epoch;
  for (std::uint32_t i = 0; i < cluster_.disks().size(); ++i) cluster_.CrashNode(NodeId(i));
  for (std::uint32_t i = 0; i < cluster_.disks().size(); ++i)
    ASSERT_TRUE(cluster_.RestartNode(NodeId(i)).ok());
  ASSERT_TRUE(Await([&] {
    return std::any_of(cluster_.nodes().begin(), cluster_.nodes().end(),
                       [](const auto& node) { return node->node().membership().leads(); });
  }));
  EXPECT_GT(At(NodeId(0)).replica()->term(), term);
  EXPECT_GE(cluster_.view().epoch, epoch);
  EXPECT_TRUE(cluster_.agreement().violations().empty());
}

TEST_F(SimVotes, F11ALeaderWhoseDiskRefusesStepsDownAndIsAVoterAgainAfterwards) {
  ASSERT_TRUE(cluster_.Open().ok());
  const NodeId node = Leader();
  cluster_.DiskOf(node)->RefuseUntil(cluster_.network().now_ns() + kSecond);
  // Something to write down.
  const NodeId other = AnyFollower();
  cluster_.CrashNode(other);
  ASSERT_TRUE(cluster_.RestartNode(other).ok());
  ASSERT_TRUE(Await([&] { return Leader() != node && Leader() != cluster::kNoNode; }));
  EXPECT_GT(cluster_.network().faults().by_kind["F11 voters' storage"], 0u);
  ASSERT_TRUE(Await([&] { return cluster_.nodes()[other.value()]->node().ready(); }));
  // What the others agreed upon is on its disk in the end.
  EXPECT_TRUE(
      Await([&] { return cluster_.DiskOf(node)->last() == cluster_.DiskOf(Leader())->last(); }));
  EXPECT_TRUE(cluster_.agreement().violations().empty());
}

}  // namespace
}  // namespace ring::sim
