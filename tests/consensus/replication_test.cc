// Rules of 10.2, 10.4 and 10.5, and how entries and snapshots travel.
#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/consensus/raft_net.h"
#include "tests/consensus/scenarios.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Replication, P102Figure8NothingOfAnEarlierTermIsCommittedByCounting) {
  EXPECT_FALSE(Figure8CommitsWhatIsReplaced());
}

TEST(Replication, P102ALeaderBeginsItsTermWithANoop) {
  RaftNet net(3);
  net.Elect(1);
  EXPECT_EQ(net.raft(1).log().At(1).kind, EntryKind::kNoop);
  net.Isolate(1);
  ASSERT_OK(net.raft(1).Propose("x"));
  net.Settle();
  net.Heal();
  net.TickAll(4);
  EXPECT_EQ(net.Commands(3), std::vector<std::string>{"x"});
}

TEST(Replication, LogsThatDifferAgreeAfterAFewMessages) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(1);
  for (int i = 0; i < 100; ++i) ASSERT_OK(net.raft(1).Propose("lost"));
  net.Settle();
  for (const std::uint64_t id : {2, 3}) net.Tick(id, 10);
  net.Elect(2);
  for (int i = 0; i < 50; ++i) net.Propose(2, "kept");
  net.seen.clear();
  net.Heal();
  net.TickAll(3);
  EXPECT_EQ(net.raft(1).log().last_index(), net.raft(2).log().last_index());
  EXPECT_EQ(net.Commands(1), net.Commands(2));
  const auto refusals = std::count_if(net.seen.begin(), net.seen.end(), [](const Message& m) {
    return m.from == S(1) && m.type == MessageType::kAppendReply && m.reject;
  });
  EXPECT_LE(refusals, 3);
}

TEST(Replication, NoMessageIsLargerThanTheOptionSays) {
  RaftNet net;
  net.options.message_size_max = 1024;
  for (const std::uint64_t id : {1, 2, 3}) net.Add(id, Voters({1, 2, 3}));
  net.Elect(1);
  EXPECT_THAT(net.raft(1).Propose(std::string(1000, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("proposal_size")));
  for (std::size_t i = 0; i < 200; ++i) ASSERT_OK(net.raft(1).Propose(std::string(i, 'x')));
  ASSERT_OK(net.raft(1).Propose(std::string(1024 - kAppendOverhead - kEntryOverhead, 'x')));
  net.Settle();
  EXPECT_EQ(net.Commands(2).size(), 201u);
  for (const Message& m : net.seen) EXPECT_LE(EncodeMessage(m).size(), 1024u);
}

TEST(Replication, UnansweredMessagesArePartOfAWindow) {
  RaftNet net;
  net.options.message_size_max = 1024;
  net.options.in_flight_max = 4;
  for (const std::uint64_t id : {1, 2, 3}) net.Add(id, Voters({1, 2, 3}));
  net.Elect(1);
  net.CutOneWay(2, 1);
  net.seen.clear();
  for (int i = 0; i < 50; ++i) ASSERT_OK(net.raft(1).Propose(std::string(900, 'x')));
  net.Settle();
  const auto sent = std::count_if(net.seen.begin(), net.seen.end(), [](const Message& m) {
    return m.to == S(2) && m.type == MessageType::kAppend && !m.entries.empty();
  });
  EXPECT_EQ(sent, 4);
  net.Heal();
  net.TickAll(10);
  EXPECT_EQ(net.Commands(2).size(), 50u);
}

TEST(Replication, F11WhoseDiskStandsStillKeepsOneAnswerForAllItIsAsked) {
  RaftNet net(3);
  net.Elect(1);
  net.server(2).hold_persists = true;
  net.Propose(1, "x");
  for (int i = 0; i < 50; ++i) {
    net.TickAll();
    net.Propose(1, "y");
  }
  net.seen.clear();
  net.server(2).hold_persists = false;
  net.FinishPersist(2);
  net.Settle();
  const auto answers = std::count_if(net.seen.begin(), net.seen.end(), [](const Message& m) {
    return m.from == S(2) && m.type == MessageType::kAppendReply;
  });
  EXPECT_LE(answers, 3) << "of what was under way, of what came since, and of the commit";
  EXPECT_EQ(net.raft(1).commit_index(), net.raft(2).log().persisted());
  net.TickAll(3);
  EXPECT_EQ(net.Commands(2).size(), 51u);
}

TEST(Replication, ALeaderRefusesMoreThanItMayHoldUncommitted) {
  RaftNet net;
  net.options.uncommitted_size_max = 100;
  for (const std::uint64_t id : {1, 2, 3}) net.Add(id, Voters({1, 2, 3}));
  net.Elect(1);
  net.Isolate(1);
  ASSERT_OK(net.raft(1).Propose(std::string(80, 'x')));
  EXPECT_THAT(net.raft(1).Propose(std::string(30, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted));
  net.Settle();
  net.Heal();
  net.TickAll(4);
  EXPECT_OK(net.raft(1).Propose(std::string(30, 'x')));
}

TEST(Membership, P104ChangesOfTwoTermsNeverCommitApart) {
  EXPECT_FALSE(ChangesOfTwoTermsCommitApart());
}

TEST(Membership, P104AChangeThatWasReplacedFallsBack) { EXPECT_FALSE(ReplacedChangeStillHolds()); }

TEST(Membership, P104OneVoterAtATime) { EXPECT_FALSE(TwoVotersChangeAtOnce()); }

TEST(Membership, P104AVoterIsALearnerThatHasCaughtUpFirst) {
  RaftNet net(1);
  net.options.promote_lag_max = 2;
  net.Start(1);
  net.Elect(1);
  net.Add(2);
  EXPECT_THAT(net.raft(1).ProposeConfiguration(Voters({1, 2})),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("learner first")));
  net.Isolate(2);
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({1}, {2})));
  net.Settle();
  for (int i = 0; i < 5; ++i) net.Propose(1, "x");
  EXPECT_THAT(net.raft(1).ProposeConfiguration(Voters({1, 2})),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("caught up")));
  net.Heal();
  net.TickAll(4);
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({1, 2})));
  net.Settle();
  EXPECT_TRUE(net.raft(1).configuration_committed());
  EXPECT_EQ(net.raft(2).configuration(), Voters({1, 2}));
}

TEST(Membership, P104NoChangeWhileAnotherIsNotCommitted) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(1);
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({1, 2})));
  EXPECT_THAT(net.raft(1).ProposeConfiguration(Voters({1})),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(Membership, ALeaderThatIsRemovedServesUntilThenAndHandsOver) {
  RaftNet net(3);
  net.Elect(1);
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({2, 3})));
  net.Settle();
  EXPECT_EQ(net.raft(1).role(), Role::kFollower);
  ASSERT_NE(net.leader(), nullptr);
  EXPECT_NE(net.leader()->id(), S(1));
}

TEST(Membership, P103ARemovedVoterDoesNotDisturb) {
  RaftNet net(4);
  net.Elect(1);
  net.Isolate(4);  // never hears that it is out
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({1, 2, 3})));
  net.Settle();
  net.Heal();
  const Term term = net.raft(1).term();
  net.TickAll(100);
  EXPECT_EQ(net.raft(1).role(), Role::kLeader);
  EXPECT_EQ(net.raft(1).term(), term);
  EXPECT_EQ(net.raft(4).role(), Role::kPreCandidate);
}

// Found by the simulation: the one server that has an uncommitted change must campaign although the
// change leaves it out, because it refuses its vote to those who lack the entry.
TEST(Membership, AServerThatAnUncommittedChangeLeavesOutStillCampaigns) {
  RaftNet net(2);
  net.Elect(1);
  net.Isolate(1);
  net.server(1).hold_persists = false;
  ASSERT_OK(net.raft(1).ProposeConfiguration(Voters({2}, {1})));
  net.Settle();
  net.Stop(1);
  net.Heal();
  net.Start(1);
  net.TickAll(60);
  ASSERT_NE(net.leader(), nullptr);
  EXPECT_EQ(net.leader()->id(), S(2));
  EXPECT_EQ(net.raft(2).configuration(), Voters({2}, {1}));
  EXPECT_TRUE(net.raft(2).configuration_committed());
}

TEST(Reads, P105OnlyARoundThatBeganAfterTheReadAnswersIt) {
  EXPECT_FALSE(EarlierRoundAnswersARead());
}

TEST(Reads, P105ANewLeaderServesNoReadBeforeItsNoop) {
  RaftNet net(3);
  net.Elect(1);
  // Index 2 is committed, but only server 1 knows.
  net.drop = [](const Message& m) { return m.from == S(1) && m.commit >= 2; };
  net.Propose(1, "x");
  net.Stop(1);
  for (const std::uint64_t id : {2, 3}) net.Tick(id, 10);
  net.drop = [](const Message& m) { return m.type == MessageType::kAppend; };
  ASSERT_OK(net.raft(2).Campaign());
  net.Settle();
  ASSERT_EQ(net.raft(2).role(), Role::kLeader);
  EXPECT_EQ(net.raft(2).commit_index(), 1u);
  ASSERT_OK(net.raft(2).Read(7));
  net.Settle();
  EXPECT_TRUE(net.server(2).reads.empty());
  net.drop = nullptr;
  net.TickAll(3);
  ASSERT_EQ(net.server(2).reads.size(), 1u);
  EXPECT_GE(net.server(2).reads[0].index, 2u);  // ReadIndex sees the entry of the earlier term
}

TEST(Reads, P105ARetryTakesANewNumberAndOldAnswersAreNone) {
  RaftNet net(3);
  net.Elect(1);
  std::vector<Message> replies;
  net.drop = [&replies](const Message& m) {
    if (m.type != MessageType::kReadReply) return false;
    replies.push_back(m);
    return true;
  };
  ASSERT_OK(net.raft(2).Read(1));
  net.Settle();
  ASSERT_EQ(replies.size(), 1u);
  net.Propose(1, "x");
  ASSERT_OK(net.raft(2).Read(2));  // joins the retry
  net.TickAll(5);
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_NE(replies[0].round, replies[1].round);
  net.drop = nullptr;
  net.Deliver(replies[0]);
  EXPECT_TRUE(net.server(2).reads.empty());
  net.Deliver(replies[1]);
  ASSERT_EQ(net.server(2).reads.size(), 2u);
  for (const ReadState& read : net.server(2).reads) EXPECT_GE(read.index, 2u);
}

// Leases are reads (L1): a leader whose disk hesitates must not stop them all.
TEST(Reads, P107AreAnsweredWhileTheLeadersOwnDiskTakesItsTime) {
  RaftNet net(3);
  net.Elect(1);
  net.server(1).hold_persists = true;
  ASSERT_OK(net.raft(1).Propose("x"));
  net.Settle();
  for (const std::uint64_t id : {2, 3}) EXPECT_EQ(net.raft(id).log().persisted(), 2u);
  ASSERT_OK(net.raft(1).Read(7));
  net.Settle();
  ASSERT_EQ(net.server(1).reads.size(), 1u);
  EXPECT_EQ(net.server(1).reads[0].index, 1u);  // which it has applied
  EXPECT_EQ(net.raft(2).commit_index(), 1u);    // so that nobody else applied more
  net.FinishPersist(1);
  net.Settle();
  for (const std::uint64_t id : {1, 2, 3}) EXPECT_EQ(net.raft(id).commit_index(), 2u);
}

TEST(Reads, P105ADeposedLeaderAnswersNone) {
  RaftNet net(3);
  net.Elect(1);
  net.Isolate(1);
  for (const std::uint64_t id : {2, 3}) net.Tick(id, 10);
  net.Elect(2);
  net.Propose(2, "x");
  ASSERT_OK(net.raft(1).Read(5));
  net.Settle();
  net.Heal();
  net.TickAll(4);
  EXPECT_TRUE(net.server(1).reads.empty());
  EXPECT_EQ(net.server(1).failed_reads, std::vector<std::uint64_t>{5});
}

TEST(Reads, ReadsShareRounds) {
  RaftNet net(3);
  net.Elect(1);
  net.seen.clear();
  for (std::uint64_t context = 0; context < 100; ++context) ASSERT_OK(net.raft(1).Read(context));
  net.Settle();
  EXPECT_EQ(net.server(1).reads.size(), 100u);
  EXPECT_LE(net.seen.size(), 8u);  // two rounds to two servers and back
}

// Found by the simulation: such a snapshot was sent for ever.
TEST(Snapshots, OneThatWasOvertakenWhileItWasSentIsFollowedByTheNext) {
  RaftNet net;
  net.options.trailing_entries = 1;
  for (const std::uint64_t id : {1, 2, 3}) net.Add(id, Voters({1, 2, 3}));
  net.Elect(1);
  const auto compact = [&net] {
    const Raft& raft = net.raft(1);
    const LogIndex index = raft.applied_index();
    net.raft(1).Compact(std::make_shared<const Snapshot>(
        Snapshot{index, *raft.log().TermAt(index), raft.configuration(), "state"}));
    net.Settle();
  };
  net.Isolate(3);
  for (int i = 0; i < 10; ++i) net.Propose(1, "x");
  compact();
  net.Heal();
  net.drop = [](const Message& m) { return m.from == S(3) && m.index > 10 && !m.reject; };
  net.TickAll(8);
  EXPECT_NE(net.server(3).restored, nullptr);
  for (int i = 0; i < 10; ++i) net.Propose(1, "y");
  compact();
  net.drop = nullptr;
  net.TickAll(10);
  EXPECT_EQ(net.raft(3).log().last_index(), net.raft(1).log().last_index());
  EXPECT_EQ(net.raft(3).applied_index(), net.raft(1).applied_index());
}

}  // namespace
}  // namespace ring::consensus
