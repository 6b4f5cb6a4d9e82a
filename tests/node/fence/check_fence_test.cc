// Checks: what voters show, and what a coordinator concludes from it (L1, L2, L3).
#include "ring/node/fence/check_fence.h"

#include <string>

#include "gtest/gtest.h"
#include "ring/node/fence/role_mark.h"
#include "tests/node/fence/check_world.h"
#include "tests/node/fence/fence_scenarios.h"

namespace ring::node {
namespace {

using testing::CheckingNode;
using testing::LeaseWorld;

constexpr std::uint64_t kMsNs = 1'000'000;

class CheckFenceTest : public ::testing::Test {
 protected:
  CheckFenceTest() : world_(3, 0) { world_.Begin(); }
  void Hear(std::uint16_t leader) {
    for (int i = 0; i < 10; ++i) {
      world_.Tick(leader);
      world_.Settle();
    }
  }
  LeaseWorld world_;
};

TEST_F(CheckFenceTest, L1AWordIsStoredBeforeItIsAcknowledged) { EXPECT_FALSE(WordIsStoredLate()); }
TEST_F(CheckFenceTest, L1VotersThatWereRemovedAreNotBelieved) {
  EXPECT_FALSE(RemovedVotersAreAsked());
}
TEST_F(CheckFenceTest, L1AVoterThatLostItsMemoryIsAnotherOne) {
  EXPECT_FALSE(VoterWithoutMemoryShowsThePast());
}
TEST_F(CheckFenceTest, L1AMajorityMustShowWhatIsKnown) { EXPECT_FALSE(OneVoterIsEnough()); }
TEST_F(CheckFenceTest, L1ALeaderShowsWhatItCounts) { EXPECT_FALSE(LeaderCountsItselfFirst()); }
TEST_F(CheckFenceTest, L2WordsFromBeforeTheCaptureDoNotCount) {
  EXPECT_FALSE(ValueIsReadBehindTheWords());
}

// L3: what only this node has is not fenced by members that refuse, so it is by the words: an
// acknowledgement is captured like any reply.
TEST_F(CheckFenceTest, L3AStoppedNodeSaysNothingUntilItKnowsWhatItLost) {
  CheckingNode node(&world_);
  EXPECT_TRUE(node.Passes());
  world_.Fail(0, 4);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(node.Passes());
    world_.Pass(kMsNs);
  }
  EXPECT_GT(node.refreshes, 0) << "it asks what was agreed upon";
  // The roles that it still has are its own again once it knows.
  node.Learn();
  EXPECT_TRUE(node.Passes());
}

TEST_F(CheckFenceTest, L1WhatIsProposedAndNotAgreedUponYetHoldsNobodyUp) {
  CheckingNode node(&world_);
  world_.Isolate(0);  // the leader persists it alone
  world_.Fail(0, 4);
  EXPECT_TRUE(world_.HasRole(0, 4));
  EXPECT_TRUE(node.Passes()) << "two others know nothing of it";
}

// One voter stands still, with its connection; another had not heard of a command yet when it was
// read.
TEST_F(CheckFenceTest, L1AVoterThatStandsStillIsNotWaitedFor) {
  CheckingNode node(&world_);
  world_.Fail(0, 4);
  node.Learn();
  node.reader.hangs = {2};
  node.reader.down = {1};
  EXPECT_FALSE(node.Passes()) << "one of three";
  node.reader.down.clear();
  EXPECT_FALSE(node.Passes()) << "at once";
  world_.Pass(kMsNs);
  EXPECT_TRUE(node.Passes());
}

TEST_F(CheckFenceTest, L1ATruncatedCommandIsShownNoMore) {
  CheckingNode node(&world_);
  const std::uint64_t before = world_.word(0);
  const std::uint16_t leader = world_.ElectWithout(0);
  world_.Fail(0, 4);  // of a leader that is none any more
  EXPECT_NE(world_.word(0), before);
  world_.Heal();
  Hear(leader);
  EXPECT_EQ(world_.word(0), before);
  EXPECT_TRUE(world_.HasRole(leader, 4));
  node.reader.down = {static_cast<std::uint32_t>(3 - leader)};
  EXPECT_TRUE(node.Passes()) << "with the former leader's word";
}

TEST_F(CheckFenceTest, L1ARestartAndASnapshotShowWhatWasPersisted) {
  world_.Fail(0, 5);
  const std::uint64_t shown = world_.word(0);
  const consensus::RaftLog& log = world_.replica(0).raft().log();
  alignas(kFenceWordSize) std::byte word[kFenceWordSize] = {};
  FenceWord restarted(LeaseWorld::ServerOf(0), word);
  EXPECT_EQ(LoadFenceWord(word), 0u);
  consensus::Snapshot first;
  first.configuration = log.ConfigurationAt(0);
  restarted.OnSnapshot(first, true);
  restarted.OnAppend(log.Range(1, log.last_index()));
  EXPECT_EQ(LoadFenceWord(word), shown);
  // Its own snapshot changes nothing, nor does a truncation of what is behind it.
  consensus::Snapshot own = first;
  own.index = log.last_index();
  own.data = world_.Snapshot(0);
  restarted.OnSnapshot(own, false);
  restarted.OnTruncate(own.index + 1);
  EXPECT_EQ(LoadFenceWord(word), shown);
  // Who gets the log as a snapshot shows the same as who got it as entries.
  alignas(kFenceWordSize) std::byte other[kFenceWordSize] = {};
  FenceWord installed(LeaseWorld::ServerOf(0), other);
  installed.OnSnapshot(own, true);
  EXPECT_EQ(LoadFenceWord(other), shown);
}

TEST_F(CheckFenceTest, OneSetIsUnderWayAndCoversTheCapturesBeforeItsPost) {
  CheckingNode node(&world_);
  node.reader.held_up = true;
  EXPECT_EQ(node.fence.Decide(1), 0u);
  EXPECT_EQ(node.reader.posted, 3);
  EXPECT_EQ(node.fence.Decide(2), 0u);
  EXPECT_EQ(node.fence.Decide(3), 0u);
  EXPECT_EQ(node.reader.posted, 3);
  node.reader.held_up = false;
  node.fence.Collect();
  node.reader.held_up = true;
  EXPECT_EQ(node.fence.Decide(4), 1u);
  EXPECT_EQ(node.reader.posted, 6) << "one set for 2, 3 and 4";
  node.reader.held_up = false;
  EXPECT_EQ(node.fence.Decide(4), 4u);
  EXPECT_EQ(node.reader.posted, 6);
}

TEST_F(CheckFenceTest, WhereWordsComeAtOnceAMajorityIsEnough) {
  CheckingNode node(&world_);
  EXPECT_TRUE(node.Passes());
  EXPECT_EQ(node.reader.posted, 2);
}

TEST_F(CheckFenceTest, VotersOutOfReachHoldWhatIsSaidUntilTheyAreBack) {
  CheckingNode node(&world_);
  node.reader.down = {0, 2};
  EXPECT_FALSE(node.Passes());
  EXPECT_EQ(node.refreshes, 0) << "nothing was shown that it does not know";
  const int posted = node.reader.posted;
  EXPECT_FALSE(node.Passes());
  EXPECT_EQ(node.reader.posted, posted) << "it looks again, but not at once";
  node.reader.down = {2};
  world_.Pass(kMsNs);
  EXPECT_TRUE(node.Passes());
}

TEST_F(CheckFenceTest, WhoKnowsNoClusterSaysNothing) {
  testing::TestReader reader(&world_);
  CheckFence fence(
      &world_.clock, &reader, [] { return RoleMark(); }, [] {});
  EXPECT_EQ(fence.Decide(1), 0u);
}

TEST(RoleMark, L1CommandsThatMayChangeRolesAreKnown) {
  const auto may = [](const cluster::ClusterCommand& command) {
    return MayChangeRoles(cluster::EncodeClusterCommand(command));
  };
  EXPECT_TRUE(may(cluster::RegisterNode{cluster::TestView().nodes[0]}));
  EXPECT_TRUE(may(cluster::FailNode{NodeId(1), Incarnation(2), "x"}));
  EXPECT_TRUE(may(cluster::DrainNode{NodeId(1)}));
  EXPECT_TRUE(may(cluster::RemoveNode{NodeId(1)}));
  EXPECT_TRUE(may(cluster::NewEpoch{GroupId(1), Epoch(1), 0, "x"}));
  EXPECT_TRUE(may(cluster::ReturnRole{GroupId(1), ShardId(0), Epoch(1), Role(3)}));
  EXPECT_FALSE(may(cluster::SetNormal{GroupId(1), ShardId(0), Epoch(1), {}}));
  EXPECT_FALSE(may(cluster::Overrun{GroupId(1), ShardId(0), Epoch(1), {}}));
  EXPECT_TRUE(MayChangeRoles("of a release to come"));
}

TEST(RoleMark, L1AWordTellsVotersRolesAndConfigurationsApart) {
  const std::vector<consensus::ServerId> three = {LeaseWorld::ServerOf(0), LeaseWorld::ServerOf(1),
                                                  LeaseWorld::ServerOf(2)};
  const std::vector<consensus::ServerId> two = {three[0], three[1]};
  const std::uint64_t word = RoleWord(three[0], {7, three});
  EXPECT_NE(word, 0u);
  EXPECT_EQ(word, RoleWord(three[0], {7, three}));
  EXPECT_NE(word, RoleWord(three[1], {7, three}));
  EXPECT_NE(word, RoleWord(three[0], {8, three}));
  EXPECT_NE(word, RoleWord(three[0], {7, two}));
  EXPECT_NE(word, RoleWord(three[0], {7, three, 1}));
}

// 10.6: voters that all forgot everything, and came to as many commands, are none of a node that
// remembers.
TEST(FenceWordTest, L1ShowsTheFoundingThatItsLogBeginsWith) {
  alignas(kFenceWordSize) std::byte word[kFenceWordSize] = {};
  const consensus::ServerId self = LeaseWorld::ServerOf(0);
  FenceWord shown(self, word);
  consensus::Snapshot first;
  first.configuration.voters = {self};
  shown.OnSnapshot(first, /*replaces_log=*/true);
  const auto found = [](consensus::LogIndex index, std::uint64_t founding) {
    cluster::View view = cluster::TestView();
    view.founding = founding;
    consensus::Entry entry;
    entry.index = index;
    entry.kind = consensus::EntryKind::kCommand;
    entry.data = cluster::EncodeClusterCommand(cluster::Found{view});
    return entry;
  };
  const std::vector<consensus::ServerId> voters = {self};
  const consensus::Entry one = found(2, 11);
  shown.OnAppend({&one, 1});
  EXPECT_EQ(LoadFenceWord(word), RoleWord(self, {2, voters, 11}));
  const consensus::Entry refused = found(3, 12);
  shown.OnAppend({&refused, 1});
  EXPECT_EQ(LoadFenceWord(word), RoleWord(self, {3, voters, 11}));
  shown.OnTruncate(2);
  const consensus::Entry other = found(2, 13);
  shown.OnAppend({&other, 1});
  EXPECT_EQ(LoadFenceWord(word), RoleWord(self, {2, voters, 13}));
  EXPECT_NE(LoadFenceWord(word), RoleWord(self, {2, voters, 11})) << "of another founding";
}

}  // namespace
}  // namespace ring::node
