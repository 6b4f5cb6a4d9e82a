// Rules of 10.3: elections, and who may not disturb.
#include <set>

#include "gtest/gtest.h"
#include "tests/consensus/raft_net.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

TEST(Election, TheFirstVoterNeedNotWait) {
  RaftNet net(1);
  net.Elect(1);
  EXPECT_EQ(net.raft(1).term(), 1u);
  EXPECT_EQ(net.server(1).applied.size(), 1u);
}

TEST(Election, SilenceLeadsToALeaderThatAllFollow) {
  RaftNet net(5);
  net.TickAll(12);
  ASSERT_NE(net.leader(), nullptr);
  EXPECT_EQ(net.leader()->id(), S(1));
  for (std::uint64_t id = 1; id <= 5; ++id) {
    EXPECT_EQ(net.raft(id).leader(), S(1));
    EXPECT_EQ(net.raft(id).term(), 1u);
  }
  net.TickAll(100);
  EXPECT_EQ(net.leader()->term(), 1u);
}

TEST(Election, TheRandomNumberOfTheTickDecidesWhenAServerCampaigns) {
  for (const std::uint64_t random : {0, 3, 9, 13}) {
    RaftNet net(3);
    const std::uint64_t timeout = 10 + random % 10;
    for (std::uint64_t tick = 1; tick < timeout; ++tick) net.raft(1).Tick(random);
    EXPECT_EQ(net.raft(1).role(), Role::kFollower);
    net.raft(1).Tick(random);
    EXPECT_EQ(net.raft(1).role(), Role::kPreCandidate);
  }
}

TEST(Election, ALogThatLacksACommittedEntryIsNotElected) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(3);
  net.Propose(1, "x");
  net.Stop(1);
  net.Heal();
  EXPECT_OK(net.raft(3).Campaign());
  net.Settle();
  EXPECT_EQ(net.raft(3).role(), Role::kPreCandidate);
  EXPECT_EQ(net.raft(3).term(), 1u);
  net.TickAll(30);
  ASSERT_NE(net.leader(), nullptr);
  EXPECT_EQ(net.leader()->id(), S(2));
  EXPECT_EQ(net.Commands(3), std::vector<std::string>{"x"});
}

TEST(Election, P103ThoseWhoAreCutOffDoNotRaiseTheirTerm) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(3);
  net.TickAll(200);
  EXPECT_EQ(net.raft(3).term(), 1u);
  EXPECT_EQ(net.raft(3).role(), Role::kPreCandidate);
  net.Heal();
  net.TickAll(5);
  EXPECT_EQ(net.raft(1).role(), Role::kLeader);
  EXPECT_EQ(net.raft(1).term(), 1u);
  EXPECT_EQ(net.raft(3).leader(), S(1));
}

TEST(Election, P103WhoHearsALeaderHeedsNoCandidate) {
  RaftNet net(3);
  net.Elect(1);
  Message vote;
  vote.type = MessageType::kVote;
  vote.from = S(3);
  vote.term = 50;
  vote.index = 100;
  vote.log_term = 49;
  for (const std::uint64_t to : {1, 2}) {
    vote.to = S(to);
    net.Deliver(vote);
  }
  net.Settle();
  EXPECT_EQ(net.raft(1).role(), Role::kLeader);
  EXPECT_EQ(net.raft(1).term(), 1u);
  EXPECT_EQ(net.raft(2).term(), 1u);
}

TEST(Election, P103ALeaderWithoutAQuorumResigns) {
  RaftNet net(5);
  net.Elect(1);
  net.Cut(1, 2);
  net.Cut(1, 3);
  net.CutOneWay(4, 1);  // heard, but not hearing, is not enough either
  net.Tick(1, 9);
  EXPECT_EQ(net.raft(1).role(), Role::kLeader);
  net.Tick(1, 2);
  EXPECT_NE(net.raft(1).role(), Role::kLeader);
  EXPECT_EQ(net.raft(1).term(), 1u);
}

TEST(Election, P103ALeaderThatHearsAQuorumStaysWhoeverElseIsGone) {
  RaftNet net(5);
  net.Elect(1);
  net.Stop(4);
  net.Stop(5);
  net.TickAll(200);
  EXPECT_EQ(net.raft(1).role(), Role::kLeader);
  EXPECT_EQ(net.raft(1).term(), 1u);
}

// NuRaft's graph of five: each server reaches some, and one that leads is not deposed by those that
// do not hear it.
TEST(Election, P103AGraphWhereNotEverybodyHearsTheLeaderKeepsOneLeader) {
  for (std::uint64_t first = 1; first <= 5; ++first) {
    RaftNet net(5);
    net.Connect({{1, 2}, {1, 3}, {2, 3}, {2, 5}, {3, 5}, {4, 5}, {1, 4}});
    EXPECT_OK(net.raft(first).Campaign());
    net.Settle();
    net.TickAll(60);
    const Raft* leader = net.leader();
    ASSERT_NE(leader, nullptr) << "first=" << first;
    const Term term = leader->term();
    const ServerId id = leader->id();
    net.TickAll(300);
    ASSERT_NE(net.leader(), nullptr);
    EXPECT_EQ(net.leader()->id(), id) << "first=" << first;
    EXPECT_EQ(net.leader()->term(), term) << "first=" << first;
    net.Propose(id.value(), "x");
    EXPECT_EQ(net.Commands(id.value()), std::vector<std::string>{"x"});
  }
}

TEST(Election, ADeposedLeaderHearsOfItFromAnyone) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(1);
  net.Tick(2, 20);
  net.Tick(3, 20);
  ASSERT_NE(net.leader(), nullptr);
  ASSERT_NE(net.leader()->id(), S(1));
  const Term term = net.leader()->term();
  net.Heal();
  net.TickAll(3);
  EXPECT_EQ(net.raft(1).role(), Role::kFollower);
  EXPECT_EQ(net.raft(1).term(), term);
}

TEST(Election, LeadershipIsHandedOverWithoutWaiting) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(3);
  net.Propose(1, "x");
  net.Heal();
  EXPECT_OK(net.raft(1).Transfer(S(3)));  // lacks an entry: gets it first
  EXPECT_FALSE(net.raft(1).Propose("y").ok());
  net.Settle();
  net.TickAll(3);
  EXPECT_EQ(net.raft(3).role(), Role::kLeader);
  EXPECT_EQ(net.raft(1).role(), Role::kFollower);
  EXPECT_EQ(net.Commands(3), std::vector<std::string>{"x"});
}

TEST(Election, AHandOverThatFailsIsGivenUp) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(3);
  EXPECT_OK(net.raft(1).Transfer(S(3)));
  net.Settle();
  EXPECT_FALSE(net.raft(1).Propose("x").ok());
  net.TickAll(10);
  EXPECT_EQ(net.raft(1).role(), Role::kLeader);
  EXPECT_OK(net.raft(1).Propose("x"));
}

TEST(Election, P107TimeoutNowIsIgnoredWhileSomethingIsNotDurable) {
  RaftNet net(3);
  net.Elect(1);
  net.server(2).hold_persists = true;
  net.Propose(1, "x");
  ASSERT_TRUE(net.server(2).held.has_value());
  Message now;
  now.type = MessageType::kTimeoutNow;
  now.from = S(1);
  now.to = S(2);
  now.term = 1;
  net.Deliver(now);
  EXPECT_EQ(net.raft(2).role(), Role::kFollower);
  EXPECT_EQ(net.raft(2).term(), 1u);
  net.FinishPersist(2);
  net.Deliver(now);
  EXPECT_EQ(net.raft(2).term(), 2u);
}

TEST(Election, P107OnlyWhatIsDurableCountsForAnElection) {
  RaftNet net(3);
  net.Elect(1);
  net.server(2).hold_persists = true;
  net.Propose(1, "x");
  net.seen.clear();
  net.Stop(1);
  EXPECT_OK(net.raft(2).Campaign());
  net.Settle();
  ASSERT_FALSE(net.seen.empty());
  for (const Message& m : net.seen) {
    if (m.type == MessageType::kPreVote) {
      EXPECT_EQ(m.index, 1u);
    }
  }
}

TEST(Election, ALearnerNeverCampaigns) {
  RaftNet net;
  net.Add(1, Voters({1}, {2}));
  net.Add(2, Voters({1}, {2}));
  EXPECT_FALSE(net.raft(2).Campaign().ok());
  net.Tick(2, 100);
  EXPECT_EQ(net.raft(2).role(), Role::kFollower);
  net.Elect(1);
  EXPECT_EQ(net.raft(2).leader(), S(1));
  // It forgets a leader that it does not hear.
  net.Stop(1);
  net.Tick(2, 30);
  EXPECT_EQ(net.raft(2).leader(), kNoServer);
}

// Its promotion is agreed upon by the others, and who promoted it is gone.
TEST(Election, ALearnerThatIsAskedVotesForItMayBeAVoterByNow) {
  RaftNet net;
  for (const std::uint64_t id : {1, 2, 3}) net.Add(id, Voters({1, 2}, {3}));
  net.Elect(1);
  net.drop = [](const Message& m) { return m.to == S(3) && m.type == MessageType::kAppend; };
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({1, 2, 3})).status());
  net.Settle();
  ASSERT_TRUE(net.raft(2).configuration().IsVoter(S(3)));
  ASSERT_FALSE(net.raft(3).configuration().IsVoter(S(3)));
  net.Stop(1);
  net.drop = nullptr;
  net.TickAll(60);
  ASSERT_NE(net.leader(), nullptr);
  EXPECT_EQ(net.leader()->id(), S(2));
  EXPECT_TRUE(net.raft(3).configuration().IsVoter(S(3)));
}

}  // namespace
}  // namespace ring::consensus
