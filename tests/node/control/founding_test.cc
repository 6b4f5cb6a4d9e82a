// Who founds a cluster and who joins one (10.6): a start without a memory never acts as a server
// that may have voted.
#include "ring/node/control/founding.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ring/cluster/cluster_command.h"
#include "ring/node/control/membership.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using Decision = Founding::Decision;

constexpr std::uint64_t kNoLeader = 0;

ProbeAnswer New(std::uint64_t incarnation) {
  return {ProbeState::kNew, Incarnation(incarnation), Incarnation(), kNoLeader, 3};
}
ProbeAnswer Founder(std::uint64_t incarnation, std::uint64_t with) {
  return {ProbeState::kFounder, Incarnation(incarnation), Incarnation(with), kNoLeader, 3};
}
ProbeAnswer Member(std::uint64_t incarnation, std::uint64_t founding = 0) {
  return {ProbeState::kMember, Incarnation(incarnation), Incarnation(), kNoLeader, 3, founding};
}

// Three voters; node 0 of incarnation 10 is asked what it does.
class FoundingTest : public ::testing::Test {
 protected:
  Founding voter_{NodeId(0), Incarnation(10), 3};
};

TEST_F(FoundingTest, AClusterIsNewWhenEveryVoterSaysSo) {
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(1), New(11));
  voter_.OnAnswer(NodeId(3), New(13));  // no voter
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(2), New(12));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
}

// Each of two numbers of voters would have a majority of its own.
TEST_F(FoundingTest, NobodyFoundsWithAFileThatHasOtherVoters) {
  ProbeAnswer other = New(11);
  other.voters = 5;
  voter_.OnAnswer(NodeId(1), other);
  voter_.OnAnswer(NodeId(2), New(12));
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  EXPECT_EQ(voter_.Differing(), "voters=3 in this file, and 5 in that of node 1");
  voter_.OnAnswer(NodeId(1), New(21));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
  EXPECT_EQ(voter_.Differing(), "");
}

TEST_F(FoundingTest, NobodyFoundsWithAStartThatIsGone) {
  voter_.OnAnswer(NodeId(1), New(11));
  voter_.OnGone(NodeId(1));
  voter_.OnAnswer(NodeId(2), New(12));
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(1), New(21));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
}

TEST_F(FoundingTest, ASlowFounderFoundsToo) {
  voter_.OnAnswer(NodeId(1), Founder(11, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(2), Founder(12, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
}

TEST_F(FoundingTest, R10_6_ARestartedVoterJoins) {
  voter_.OnAnswer(NodeId(1), Founder(11, 9));  // with the start before this one
  EXPECT_EQ(voter_.Decide(), Decision::kJoin);
}

// One founder knows this start, and another the former one: that may have voted.
TEST_F(FoundingTest, R10_6_OneFounderOfAFormerStartIsEnoughToJoin) {
  voter_.OnAnswer(NodeId(1), Founder(11, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(2), Founder(12, 9));
  EXPECT_EQ(voter_.Decide(), Decision::kJoin);
}

TEST_F(FoundingTest, AVoterThatIsAMemberTellsOfACluster) {
  voter_.OnAnswer(NodeId(2), Member(12, /*founding=*/77));
  EXPECT_EQ(voter_.Decide(), Decision::kJoin);
}

TEST_F(FoundingTest, AMemberOfNothingYetIsJoinedWhenNobodyAwaitsThisStart) {
  voter_.OnAnswer(NodeId(2), Member(12));
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(1), New(11));
  EXPECT_EQ(voter_.Decide(), Decision::kJoin);
}

// Node 1 founded with the first start of node 2, which ended before it founded, too. If this one
// joined as well, one server of three would be left, and nobody to add the others.
TEST_F(FoundingTest, R10_6AVoterThatIsAwaitedFoundsBesideOneThatStartedAgain) {
  voter_.OnAnswer(NodeId(2), Member(22));
  voter_.OnAnswer(NodeId(1), Founder(11, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
  voter_.OnAnswer(NodeId(1), Founder(11, 9));
  EXPECT_EQ(voter_.Decide(), Decision::kJoin);
}

// Node 1 answered another start of this node, which may have founded by that, and voted; who would
// know is node 2, if it lost its memory.
TEST_F(FoundingTest, R10_6WhoMayHaveVotedInAFormerStartIsNotAwaited) {
  Founding founder(NodeId(1), Incarnation(11), 3);
  founder.OnAsked(NodeId(0), Incarnation(9));
  founder.OnAsked(NodeId(0), Incarnation(10));
  founder.OnAsked(NodeId(2), Incarnation(12));
  founder.OnAsked(NodeId(2), Incarnation(12));
  founder.OnAnswer(NodeId(0), New(10));
  founder.OnAnswer(NodeId(2), New(12));
  ASSERT_EQ(founder.Decide(), Decision::kFound);
  founder.Found();
  EXPECT_FALSE(founder.Answer(NodeId(2), kNoLeader, 0).met_others);
  const ProbeAnswer answer = founder.Answer(NodeId(0), kNoLeader, 0);
  EXPECT_EQ(answer.founded, Incarnation(10));
  EXPECT_TRUE(answer.met_others);

  voter_.OnAnswer(NodeId(1), answer);
  voter_.OnAnswer(NodeId(2), Member(22));
  EXPECT_EQ(voter_.Decide(), Decision::kJoin);
  voter_.OnAnswer(NodeId(2), Founder(12, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kFound) << "everybody who founded did so with this start";
}

TEST_F(FoundingTest, WhatASpareJoinedMayBeWhatThisStartFounds) {
  voter_.OnAnswer(NodeId(1), New(11));
  voter_.OnAnswer(NodeId(4), Member(14));
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  voter_.OnAnswer(NodeId(2), Founder(12, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
}

// Voters that forgot everything: what they would found has the numbers of what others are part of.
TEST_F(FoundingTest, R10_6_NobodyFoundsBesideAClusterThatNoVoterRemembers) {
  ProbeAnswer survivor = Member(14);
  survivor.founding = 77;
  voter_.OnAnswer(NodeId(1), New(11));
  voter_.OnAnswer(NodeId(2), New(12));
  voter_.OnAnswer(NodeId(4), survivor);
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  EXPECT_NE(voter_.Stranded().find("node 4 has its part in a cluster that no voter remembers"),
            std::string::npos)
      << voter_.Stranded();
  EXPECT_EQ(Founding(NodeId(5), Incarnation(15), 3).Stranded(), "") << "it founds nothing";
  voter_.OnAnswer(NodeId(4), Member(24));  // of nothing that was founded
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
  EXPECT_EQ(voter_.Stranded(), "");
  voter_.OnAnswer(NodeId(4), survivor);
  voter_.OnGone(NodeId(4));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
}

// What was founded with this very start is what the other has its part in.
TEST_F(FoundingTest, ASlowFounderFoundsWhatOthersHaveTheirPartIn) {
  ProbeAnswer member = Member(14);
  member.founding = 77;
  voter_.OnAnswer(NodeId(4), member);
  voter_.OnAnswer(NodeId(1), New(11));
  voter_.OnAnswer(NodeId(2), Founder(12, 10));
  EXPECT_EQ(voter_.Decide(), Decision::kFound);
}

TEST_F(FoundingTest, WhoIsNoVoterOnlyJoins) {
  Founding spare(NodeId(5), Incarnation(15), 3);
  for (std::uint32_t i = 0; i < 3; ++i) spare.OnAnswer(NodeId(i), New(10 + i));
  EXPECT_EQ(spare.Decide(), Decision::kWait);
  spare.OnAnswer(NodeId(4), Member(14));
  EXPECT_EQ(spare.Decide(), Decision::kJoin);
}

TEST_F(FoundingTest, OneVoterAloneFounds) {
  EXPECT_EQ(Founding(NodeId(0), Incarnation(1), 1).Decide(), Decision::kFound);
}

TEST_F(FoundingTest, AFounderNamesTheStartsThatItFoundedWith) {
  voter_.OnAnswer(NodeId(1), New(11));
  voter_.OnAnswer(NodeId(2), New(12));
  EXPECT_EQ(voter_.Answer(NodeId(1), 7, 0).state, ProbeState::kNew);
  voter_.Found();
  EXPECT_EQ(voter_.Decide(), Decision::kWait);
  const ProbeAnswer answer = voter_.Answer(NodeId(1), 7, 0);
  EXPECT_EQ(answer.state, ProbeState::kFounder);
  EXPECT_EQ(answer.self, Incarnation(10));
  EXPECT_EQ(answer.founded, Incarnation(11));
  EXPECT_EQ(answer.leader, 7u);
  EXPECT_EQ(answer.voters, 3);
  EXPECT_EQ(voter_.Answer(NodeId(4), 7, 5).founded, Incarnation());
  EXPECT_EQ(voter_.Answer(NodeId(4), 7, 5).founding, 5u);
}

// It is one entry of the consensus, and without it nothing begins.
TEST(Found, TheLargestFileMakesAViewThatFitsIntoAMessage) {
  const std::string longest(59, 'n');
  std::vector<cluster::NodeInfo> nodes(cluster::kNodeCountMax);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].id = NodeId(static_cast<std::uint32_t>(i));
    nodes[i].name = absl::StrCat(longest, i);
  }
  std::vector<protocol::MemgestDescriptor> memgests(256);
  for (std::size_t i = 0; i < memgests.size(); ++i) memgests[i].name = absl::StrCat(longest, i);
  const cluster::View view = cluster::InitialView(16, 4, std::move(nodes), std::move(memgests));
  EXPECT_LT(cluster::EncodeClusterCommand(cluster::Found{view}).size() + 1024,
            Membership::kMessageSizeMax);
}

TEST(Probe, GivesBackWhatWasEncodedAndRefusesTheRest) {
  const std::string bytes = EncodeProbe(Founder(3, 4));
  ASSERT_OK_AND_ASSIGN(const ProbeAnswer answer, DecodeProbe(bytes));
  EXPECT_EQ(answer.state, ProbeState::kFounder);
  EXPECT_EQ(answer.self, Incarnation(3));
  EXPECT_EQ(answer.founded, Incarnation(4));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeProbe(bytes.substr(0, size)).ok());
  }
  EXPECT_FALSE(DecodeProbe(bytes + "x").ok());
  std::string wrong = bytes;
  wrong[0] = 0;
  EXPECT_FALSE(DecodeProbe(wrong).ok());
  wrong[0] = 4;
  EXPECT_FALSE(DecodeProbe(wrong).ok());
}

}  // namespace
}  // namespace ring::node
