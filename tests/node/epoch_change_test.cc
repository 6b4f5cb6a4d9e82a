// Epoch changes of whole nodes: protocol rules section 5, in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/cluster/routing.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

class EpochChangeNodeTest : public ::testing::Test {
 protected:
  void Start(std::size_t spare_count) {
    ASSERT_OK(cluster_.Start(spare_count));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }

  // So many keys in each memgest; small and large values.
  void Load(int count, const std::string& tag) {
    for (const protocol::MemgestDescriptor& memgest : cluster_.view().memgests) {
      for (int i = 0; i < count; ++i) {
        const std::string key = absl::StrCat(tag, "/", memgest.name, "/", i);
        const std::string value(static_cast<std::size_t>(1 + i * 997 % 20000),
                                static_cast<char>('a' + i % 26));
        const absl::StatusOr<WriteResult> put = client_->Put(key, value, {.memgest = memgest.name});
        ASSERT_TRUE(put.ok()) << key << ": " << put.status();
        values_[key] = value;
      }
    }
  }

  NodeId OwnerOf(const std::string& key) {
    const cluster::Place place = cluster::Routing(cluster_.view().s, cluster_.view().d).OfKey(key);
    return cluster_.view().Coordinator(place.group, place.shard);
  }

  testing::EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
};

TEST_F(EpochChangeNodeTest, TheSameRolesInANewEpochGoOnWithEverything) {
  Start(1);
  Load(12, "before");
  for (std::uint16_t g = 0; g < 5; ++g)
    ASSERT_OK(cluster_.Apply(cluster::NewEpoch{GroupId(g), Epoch(1), 0, "test"}));
  ASSERT_OK(cluster_.WaitServing());
  for (const auto& [key, value] : values_) {
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    ASSERT_EQ(got.value, value) << key;
  }
  Load(12, "after");
  for (const auto& [key, value] : values_) {
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    ASSERT_EQ(got.value, value) << key;
  }
}

// Without a spare: survivors serve what they coordinate, on the members that are left.
TEST_F(EpochChangeNodeTest, SurvivorsServeTheirShardsWhenANodeIsLost) {
  Start(0);
  Load(12, "before");
  const NodeId lost(4);
  cluster_.Kill(lost);
  ASSERT_OK(cluster_.Fail(lost));
  ASSERT_OK(cluster_.WaitServing());
  int kept = 0;
  for (const auto& [key, value] : values_) {
    if (OwnerOf(key) == cluster::kNoNode) continue;
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
    ++kept;
  }
  EXPECT_GT(kept, 30);
  for (const char* memgest : {"REP1", "REP3", "SRS32"}) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = absl::StrCat("after/", memgest, "/", i);
      if (OwnerOf(key) == cluster::kNoNode) continue;
      const absl::StatusOr<WriteResult> put = client_->Put(key, "v", {.memgest = memgest});
      ASSERT_TRUE(put.ok()) << key << ": " << put.status();
      ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
      ASSERT_EQ(got.value, "v");
    }
  }
}

// A spare takes a lost coordinator's shards: replicated values are fetched from the members.
TEST_F(EpochChangeNodeTest, ASpareTakesTheShardsOfALostCoordinatorOver) {
  Start(1);
  Load(12, "before");
  const NodeId lost(1);
  std::map<std::string, std::string> taken;
  for (const auto& [key, value] : values_) {
    if (OwnerOf(key) == lost && absl::StrContains(key, "REP3")) taken[key] = value;
  }
  ASSERT_FALSE(taken.empty());
  cluster_.Kill(lost);
  ASSERT_OK(cluster_.Fail(lost));
  ASSERT_OK(cluster_.WaitServing());
  for (const auto& [key, value] : taken) {
    EXPECT_EQ(OwnerOf(key), NodeId(5));
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
  }
}

TEST_F(EpochChangeNodeTest, L9WhoMeetsALaterEpochServesNothingBeforeItKnowsIt) {
  Start(1);
  const GroupId group(2);
  const auto serving = [&] {
    bool is = false;
    cluster_.Run([&] {
      is = cluster_.node(cluster_.view().Coordinator(group, ShardId(1)))
               ->FindShard(group, ShardId(1))
               ->serving();
    });
    return is;
  };
  const Epoch epoch = cluster_.view().groups[group.value()].epoch;
  const auto meet = [&](Epoch met) {
    cluster_.Run([&] {
      cluster_.node(cluster_.view().Coordinator(group, ShardId(1)))->MeetEpoch(group, met);
    });
  };
  meet(epoch);
  EXPECT_TRUE(serving());
  meet(Epoch(epoch.value() + 1));
  EXPECT_FALSE(serving());
  ASSERT_OK(cluster_.Apply(cluster::NewEpoch{group, epoch, 0, "test"}));
  ASSERT_OK(cluster_.WaitServing());
  EXPECT_TRUE(serving());
}

TEST_F(EpochChangeNodeTest, ANewEpochIsProposedUntilItIsThere) {
  Start(1);
  cluster_.LoseFirstProposals();
  std::vector<Epoch> before;
  for (const cluster::GroupView& group : cluster_.view().groups) before.push_back(group.epoch);
  cluster_.Kill(NodeId(3));  // and nobody says so: the others lose their log connections to it
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (std::size_t g = 0; g < before.size(); ++g) {
    Epoch now;
    do {
      ASSERT_LT(absl::Now(), deadline) << "group " << g;
      cluster_.Run([&] { now = cluster_.view().groups[g].epoch; });
    } while (now == before[g]);
  }
}

}  // namespace
}  // namespace ring::node
