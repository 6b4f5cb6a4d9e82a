// Who is asked before a member that lags is demoted, and which answers allow it.
#include "ring/node/recovery/demotion_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace ring::node {
namespace {

using ::testing::UnorderedElementsAre;

constexpr std::uint32_t kRole4 = 1u << 4;
constexpr std::uint64_t kMs = 1'000'000;

class DemotionCheckTest : public ::testing::Test {
 protected:
  using Done = absl::AnyInvocable<void(const DemotionCheck::Answer&)>;

  // One group of three shards on nodes 10 to 14, Rep(3) and SRS(3,2).
  DemotionCheckTest() {
    view_.s = 3;
    view_.d = 2;
    cluster::GroupView group;
    group.epoch = Epoch(7);
    for (std::uint32_t node = 10; node < 15; ++node) group.roles.push_back(NodeId(node));
    group.shards.resize(3);
    view_.groups.push_back(group);
    view_.memgests.resize(2);
    view_.memgests[0].id = MemgestId(1);
    view_.memgests[0].r = 3;
    view_.memgests[1].id = MemgestId(2);
    view_.memgests[1].scheme = protocol::Scheme::kStretchedReedSolomon;
    view_.memgests[1].k = 3;
    view_.memgests[1].m = 2;
  }
  bool Look() { return check_.Look(view_, GroupId(0), kRole4, now_ns_); }
  // Gives how many were asked.
  std::size_t AnswerAll(const DemotionCheck::Answer& last) {
    std::vector<Done> asked = std::exchange(asked_, {});
    for (std::size_t i = 0; i < asked.size(); ++i)
      asked[i](i + 1 == asked.size() ? last : DemotionCheck::Answer(Lacks(0)));
    return asked.size();
  }
  static std::vector<recovery::ValuesToCome> Lacks(std::uint64_t absent) {
    return {{MemgestId(1), 100, absent, absent}};
  }

  cluster::View view_;
  std::uint64_t now_ns_ = 1000 * kMs;
  std::set<std::pair<std::uint32_t, std::uint16_t>> whom_;  // node, shard
  std::vector<Done> asked_;
  DemotionCheck check_{[this](NodeId node, const recovery::ProgressRequest& request, Done done) {
    EXPECT_EQ(request.epoch, view_.groups[0].epoch);
    whom_.insert({node.value(), request.shard.value()});
    asked_.push_back(std::move(done));
  }};
};

TEST_F(DemotionCheckTest, E5TheReplicasThatStayAreAskedForEveryShard) {
  EXPECT_FALSE(Look());
  EXPECT_THAT(whom_, UnorderedElementsAre(std::pair(13u, 0), std::pair(13u, 1), std::pair(13u, 2)));
  EXPECT_FALSE(Look()) << "the answers are still to come";
  EXPECT_EQ(AnswerAll(Lacks(0)), 3u);
  EXPECT_TRUE(Look());
  now_ns_ += DemotionCheck::kFreshNs;
  EXPECT_FALSE(Look()) << "that was long ago";
  EXPECT_EQ(AnswerAll(Lacks(0)), 3u);
  view_.groups[0].epoch = Epoch(8);
  EXPECT_FALSE(Look()) << "that was another epoch";
  EXPECT_EQ(check_.refused(), 0u);
}

TEST_F(DemotionCheckTest, F10NobodyIsDemotedWhileAnotherLacksAValueOrDoesNotSay) {
  EXPECT_FALSE(Look());
  AnswerAll(Lacks(1));
  EXPECT_FALSE(Look());
  EXPECT_EQ(check_.refused(), 1u);
  EXPECT_TRUE(asked_.empty()) << "not at once again";
  now_ns_ += DemotionCheck::kRetryNs;
  EXPECT_FALSE(Look());
  AnswerAll(absl::UnavailableError("connection lost"));
  EXPECT_FALSE(Look());
  EXPECT_EQ(check_.refused(), 2u);
  now_ns_ += DemotionCheck::kRetryNs;
  EXPECT_FALSE(Look());
  AnswerAll(Lacks(0));
  EXPECT_TRUE(Look());
  EXPECT_EQ(check_.refused(), 2u);
}

}  // namespace
}  // namespace ring::node
