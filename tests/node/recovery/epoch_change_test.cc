// Epoch changes of whole nodes, in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ring/cluster/health.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

class EpochChangeNodeTest : public ::testing::Test {
 protected:
  void Start(std::size_t spare_count, const std::function<void(NodeConfig*)>& change = {}) {
    ASSERT_OK(cluster_.Start(spare_count, change));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }

  // By group.
  std::vector<Epoch> Epochs() {
    std::vector<Epoch> epochs;
    const std::shared_ptr<const cluster::View> view = cluster_.PresentView();
    for (const cluster::GroupView& group : view->groups) epochs.push_back(group.epoch);
    return epochs;
  }
  // So many keys in each memgest; small and large values.
  void Load(int count, const std::string& tag) {
    const std::shared_ptr<const cluster::View> view = cluster_.PresentView();
    for (const protocol::MemgestDescriptor& memgest : view->memgests) {
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

  // All shards that the node coordinates have proposed their Normal.
  absl::Status WaitProposing(NodeId node) {
    return cluster_.WaitUntilNothing([this, node]() -> std::string {
      for (const auto& shard : cluster_.node(node)->shards()) {
        const bool proposes = shard->change() != nullptr &&
                              shard->change()->phase() == recovery::EpochPhase::kProposing;
        if (!proposes) return absl::StrCat("does not propose: ", shard->Missing());
      }
      return cluster_.node(node)->shards().empty() ? "coordinates nothing" : "";
    });
  }
  // By shard of the node: whether it goes on with its state.
  std::vector<bool> Living(NodeId node) {
    std::vector<bool> living;
    cluster_.Run([&] {
      for (const auto& shard : cluster_.node(node)->shards())
        living.push_back(shard->change()->plan().living);
    });
    return living;
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

// V1: when half of them are assigned. A proposal that gets lost is made again.
TEST_F(EpochChangeNodeTest, V1ANewEpochIsAskedForWhenVersionsRunOut) {
  Start(1);
  cluster_.LoseFirstProposals();
  const cluster::Place place = cluster_.PlaceOf("k");
  const NodeId owner = cluster_.OwnerOf("k");
  const auto shard = [&] { return cluster_.node(owner)->FindShard(place.group, place.shard); };
  const std::vector<Epoch> before = Epochs();
  cluster_.Run([&] {
    shard()->coordinator()->SkipVersions(coordinator::ShardCoordinator::kVersionsAsk - 1);
  });
  ASSERT_OK_AND_ASSIGN(const WriteResult last, client_->Put("k", "old", {.memgest = "SRS32"}));
  EXPECT_EQ(
      last.version.bits(),
      Version(before[place.group.value()], coordinator::ShardCoordinator::kVersionsAsk).bits());
  ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
    const Epoch now = cluster_.view().groups[place.group.value()].epoch;
    return now > before[place.group.value()] ? "" : "no new epoch";
  }));
  ASSERT_OK(cluster_.WaitServing());
  EXPECT_THAT(client_->Get("k")->value, "old");
  ASSERT_OK_AND_ASSIGN(const WriteResult next, client_->Put("k", "new", {.memgest = "SRS32"}));
  EXPECT_GT(next.version, last.version);
  cluster_.Run([&] { EXPECT_FALSE(shard()->coordinator()->versions_run_out()); });
  for (std::size_t g = 0; g < before.size(); ++g) {
    const std::uint32_t epochs = g == place.group.value() ? 1 : 0;
    EXPECT_EQ(Epochs()[g].value(), before[g].value() + epochs) << "group " << g;
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
    if (cluster_.OwnerOf(key) == cluster::kNoNode) continue;
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
    ++kept;
  }
  EXPECT_GT(kept, 30);
  for (const char* memgest : {"REP1", "REP3", "SRS32"}) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = absl::StrCat("after/", memgest, "/", i);
      if (cluster_.OwnerOf(key) == cluster::kNoNode) continue;
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
    if (cluster_.OwnerOf(key) == lost && absl::StrContains(key, "REP3")) taken[key] = value;
  }
  ASSERT_FALSE(taken.empty());
  cluster_.Kill(lost);
  ASSERT_OK(cluster_.Fail(lost));
  ASSERT_OK(cluster_.WaitServing());
  for (const auto& [key, value] : taken) {
    EXPECT_EQ(cluster_.OwnerOf(key), NodeId(5));
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
  const Epoch epoch = cluster_.PresentView()->groups[group.value()].epoch;
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

// V6: a node that stood still learns of two epochs at once. What it served is another's past, and
// answers on their way may refer to it.
TEST_F(EpochChangeNodeTest, V6AViewThatSkipsAnotherCoordinatorsEpochBeginsTheShardAnew) {
  Start(1);
  const GroupId group(0);
  const ShardId shard(0);
  cluster_.Run([&] {
    Node& node = *cluster_.node(cluster_.view().Coordinator(group, shard));
    CoordinatedShard* const former = node.FindShard(group, shard);
    auto later = std::make_shared<cluster::View>(cluster_.view());
    cluster::GroupView& roles = later->groups[group.value()];
    cluster::NormalRecord& normal = roles.shards[shard.value()].normal;
    later->epoch += 2;
    normal.epoch = Epoch(roles.epoch.value() + 1);
    normal.holders[shard.value()] = {NodeId(5), later->nodes[5].incarnation};
    roles.epoch = Epoch(roles.epoch.value() + 2);
    node.ApplyView(later);
    EXPECT_EQ(node.lost_shard_count(), 1u);
    EXPECT_NE(node.FindShard(group, shard), former);
    EXPECT_FALSE(node.FindShard(group, shard)->serving());
  });
}

// E7: a node coordinates in L, loses the role, takes its shards over again in an epoch that is
// abandoned, and comes to the next one without their values.
TEST_F(EpochChangeNodeTest, E7WhatWasTakenOverInAnAbandonedEpochDoesNotLiveOn) {
  Start(1);
  Load(12, "before");
  const NodeId node(1);
  const NodeId spare(5);
  cluster_.LoseNormals(true);
  ASSERT_OK(cluster_.Fail(node));  // it was only silent
  ASSERT_OK(cluster_.RegisterAgain(node));
  ASSERT_OK(cluster_.Fail(spare));  // it had inherited all its roles
  ASSERT_OK(WaitProposing(node));
  for (const bool living : Living(node)) ASSERT_FALSE(living);
  const std::vector<Epoch> epochs = Epochs();
  for (std::uint16_t g = 0; g < 5; ++g)
    ASSERT_OK(cluster_.Apply(cluster::NewEpoch{GroupId(g), epochs[g], 0, "abandons it"}));
  ASSERT_OK(WaitProposing(node));
  for (const bool living : Living(node)) EXPECT_FALSE(living);
  cluster_.LoseNormals(false);
  ASSERT_OK(cluster_.WaitServing());
  ASSERT_OK(cluster_.WaitProtected());
  for (const auto& [key, value] : values_) {
    if (absl::StrContains(key, "REP1")) continue;
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
  }
}

// ... and one that goes on keeps what it has, whatever was begun in between.
TEST_F(EpochChangeNodeTest, E7ACoordinatorThatServedLivesThroughAbandonedEpochs) {
  Start(0);
  Load(12, "before");
  cluster_.LoseNormals(true);
  for (int round = 0; round < 2; ++round) {
    const std::vector<Epoch> epochs = Epochs();
    for (std::uint16_t g = 0; g < 5; ++g)
      ASSERT_OK(cluster_.Apply(cluster::NewEpoch{GroupId(g), epochs[g], 0, "test"}));
    ASSERT_OK(WaitProposing(NodeId(1)));
    for (const bool living : Living(NodeId(1))) EXPECT_TRUE(living);
  }
  cluster_.LoseNormals(false);
  ASSERT_OK(cluster_.WaitServing());
  for (const auto& [key, value] : values_) {
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    ASSERT_EQ(got.value, value) << key;
  }
}

// Without a spare its roles are vacant until it comes back, and nobody else has values of Rep(1).
TEST_F(EpochChangeNodeTest, E7ANodeThatWasOnlySilentGoesOnFromItsStateIfNobodyServedInBetween) {
  Start(0);
  Load(12, "before");
  const NodeId silent(1);
  const auto resting = [&] {
    std::size_t count = 0;
    cluster_.Run([&] { count = cluster_.node(silent)->resting_shard_count(); });
    return count;
  };
  ASSERT_OK(cluster_.Fail(silent));
  ASSERT_OK(cluster_.WaitServing());
  EXPECT_GT(resting(), 0u);
  EXPECT_TRUE(Living(silent).empty());
  for (const auto& [key, value] : values_) {
    if (cluster_.OwnerOf(key) == cluster::kNoNode) continue;
    ASSERT_OK(client_->Put(key, value + "!").status()) << key;
    values_[key] = value + "!";
  }
  ASSERT_OK(cluster_.RegisterAgain(silent));
  ASSERT_OK(cluster_.WaitServing());
  EXPECT_EQ(resting(), 0u);
  for (const bool living : Living(silent)) EXPECT_TRUE(living);
  ASSERT_OK(cluster_.WaitProtected());
  for (const auto& [key, value] : values_) {
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
  }
  Load(12, "after");
}

// ... and not if somebody did: what it has is out of date then.
TEST_F(EpochChangeNodeTest, E7WhatRestsIsForgottenWhenAnotherNodeGetsTheRole) {
  Start(1);
  Load(12, "before");
  const NodeId silent(1);
  const NodeId spare(5);
  ASSERT_OK(cluster_.Fail(spare));
  ASSERT_OK(cluster_.Fail(silent));
  ASSERT_OK(cluster_.WaitServing());
  ASSERT_OK(cluster_.RegisterAgain(spare));
  ASSERT_OK(cluster_.WaitServing());
  cluster_.Run([&] { EXPECT_EQ(cluster_.node(silent)->resting_shard_count(), 0u); });
  for (auto& [key, value] : values_) {
    if (cluster_.OwnerOf(key) != spare || absl::StrContains(key, "REP1")) continue;
    ASSERT_OK(client_->Put(key, value + "!").status()) << key;
    value += "!";
  }
  ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
    for (const std::string& warning : cluster::HealthWarnings(cluster_.view())) {
      if (absl::StrContains(warning, "not fully protected")) return warning;
    }
    return "";
  }));
  ASSERT_OK(cluster_.RegisterAgain(silent));
  ASSERT_OK(cluster_.Fail(spare));
  ASSERT_OK(cluster_.WaitServing());
  for (const bool living : Living(silent)) EXPECT_FALSE(living);
  for (const auto& [key, value] : values_) {
    if (absl::StrContains(key, "REP1")) continue;
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
  }
}

// Who stays reads on: what is committed stays so, whoever has yet to agree.
TEST_F(EpochChangeNodeTest, E2ReadsGoOnAtWhoKeepsItsRoleBeforeNormal) {
  Start(0);
  Load(6, "before");
  cluster_.LoseNormals(true);
  for (std::uint16_t g = 0; g < 5; ++g)
    ASSERT_OK(cluster_.Apply(cluster::NewEpoch{GroupId(g), Epoch(1), 0, "test"}));
  ASSERT_OK(WaitProposing(NodeId(1)));
  int read = 0;
  for (const auto& [key, value] : values_) {
    if (cluster_.OwnerOf(key) != NodeId(1)) continue;
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    ASSERT_EQ(got.value, value) << key;
    ++read;
  }
  EXPECT_GT(read, 0);
  cluster_.LoseNormals(false);
  ASSERT_OK(cluster_.WaitServing());
}

// {A; P1, P2} gives way to {A; P1}, which is agreed upon, heard by nobody and never Normal: A
// acknowledges on P1 and P2 as ever. Then A and P1 are lost, and P2 alone has it all.
TEST_F(EpochChangeNodeTest, Step2WhoAcknowledgedCountsThroughAnAbandonedEpoch) {
  Start(2, [](NodeConfig* config) {
    std::erase_if(config->memgests, [](const protocol::MemgestDescriptor& memgest) {
      return memgest.name != "SRS32";
    });
    protocol::MemgestDescriptor all;
    all.name = config->default_memgest = "ALL3";
    all.r = 3;
    all.commit = protocol::CommitRule::kAll;
    config->memgests.push_back(all);
    config->control.overrun = cluster::OverrunPolicy::kContinue;  // what is lost shows at once
  });
  const GroupId group(0);
  const NodeId a(0), p1(3);
  const std::uint32_t p2 = 1u << 4;
  Load(12, "before");
  cluster_.WithholdViews(true);
  ASSERT_OK(cluster_.Apply(cluster::NewEpoch{group, Epochs()[0], p2, "lags"}));
  Load(40, "acknowledged");
  cluster_.Kill(a);
  cluster_.Kill(p1);
  ASSERT_OK(cluster_.Fail(a));
  ASSERT_OK(cluster_.Fail(p1));
  cluster_.WithholdViews(false);
  ASSERT_OK(cluster_.WaitServing());
  int kept = 0;
  for (const auto& [key, value] : values_) {
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
    const bool of_a = cluster_.PlaceOf(key) == cluster::Place{group, ShardId(0)};
    kept += of_a && absl::StrContains(key, "acknowledged") ? 1 : 0;
  }
  EXPECT_GT(kept, 1);
}

// E8: of the coordinator's two replicas one was only silent. No role waits for it, so that no epoch
// comes of its return: the shard that stopped has to see by itself that nothing was lost.
TEST_F(EpochChangeNodeTest, E8AShardThatStoppedServesWhenAHolderIsBack) {
  Start(2);
  Load(12, "before");
  cluster_.LoseNormals(true);
  const NodeId silent(3);
  const NodeId lost(0);
  const cluster::Place place{GroupId(0), ShardId(0)};
  const auto wait_for = [&](recovery::EpochPhase phase) {
    return cluster_.WaitUntilNothing([&]() -> std::string {
      Node* const owner = cluster_.node(cluster_.view().Coordinator(place.group, place.shard));
      CoordinatedShard* const shard = owner->FindShard(place.group, place.shard);
      if (shard == nullptr || shard->change() == nullptr) return "it is not begun";
      return shard->change()->phase() == phase ? "" : absl::StrCat("not so: ", shard->Missing());
    });
  };
  ASSERT_OK(cluster_.Fail(silent));
  cluster_.Kill(lost);
  ASSERT_OK(cluster_.Fail(lost));
  ASSERT_OK(wait_for(recovery::EpochPhase::kStopped));
  cluster_.LoseNormals(false);
  ASSERT_OK(cluster_.RegisterAgain(silent));
  ASSERT_OK(wait_for(recovery::EpochPhase::kServing));
  int kept = 0;
  for (const auto& [key, value] : values_) {
    const cluster::Place of = cluster_.PlaceOf(key);
    if (of.group != place.group || of.shard != place.shard || !absl::StrContains(key, "REP3"))
      continue;
    const absl::StatusOr<GetResult> got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_EQ(got->value, value) << key;
    ++kept;
  }
  EXPECT_GT(kept, 0);
}

// To ask who is gone to seal would stop all shards until the cluster knows that it is.
TEST_F(EpochChangeNodeTest, WhoIsGoneIsLeftToTheDetectorAndGetsGoOnMeanwhile) {
  Start(1, [](NodeConfig* config) { config->control.detect_ms = kDetectMsMax; });
  Load(4, "before");
  const std::vector<Epoch> before = Epochs();
  cluster_.Kill(NodeId(3));
  for (const auto& [key, value] : values_) {
    if (cluster_.OwnerOf(key) == NodeId(3)) continue;
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    ASSERT_EQ(got.value, value) << key;
  }
  EXPECT_EQ(Epochs(), before);
  ASSERT_OK(cluster_.Fail(NodeId(3)));
  ASSERT_OK(cluster_.WaitServing());
}

TEST_F(EpochChangeNodeTest, ANewEpochIsProposedUntilItIsThere) {
  Start(1);
  cluster_.LoseFirstProposals();
  const std::vector<Epoch> before = Epochs();
  cluster_.Kill(NodeId(3));  // and nobody says so: the others lose their log connections to it
  for (std::size_t g = 0; g < before.size(); ++g) {
    ring::testing::Await(absl::StrCat("another epoch of group ", g),
                         [&] { return Epochs()[g] != before[g]; });
  }
}

}  // namespace
}  // namespace ring::node
