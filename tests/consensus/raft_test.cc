// Rules of 10.1 and 10.6: what may be said when.
#include "consensus/raft.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/consensus/raft_net.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

bool Has(const std::vector<Message>& messages, MessageType type) {
  return std::any_of(messages.begin(), messages.end(),
                     [type](const Message& m) { return m.type == type; });
}

Message Make(MessageType type, std::uint64_t from, std::uint64_t to, Term term) {
  Message m;
  m.type = type;
  m.from = S(from);
  m.to = S(to);
  m.term = term;
  return m;
}

TEST(Raft, P101AVoteIsSaidOnlyOnceItIsDurable) {
  RaftNet net(3);
  Message vote = Make(MessageType::kVote, 2, 1, 5);
  net.raft(1).Receive(vote);
  Ready ready = net.raft(1).TakeReady();
  ASSERT_TRUE(ready.persist.has_value());
  EXPECT_EQ(ready.persist->hard_state, (HardState{5, S(2)}));
  EXPECT_TRUE(ready.messages.empty());
  net.raft(1).Persisted(ready.persist->id, true);
  ready = net.raft(1).TakeReady();
  ASSERT_EQ(ready.messages.size(), 1u);
  EXPECT_EQ(ready.messages[0].type, MessageType::kVoteReply);
  EXPECT_FALSE(ready.messages[0].reject);
}

TEST(Raft, P101AnAcknowledgementIsSaidOnlyOnceTheEntriesAreDurable) {
  RaftNet net(3);
  Message append = Make(MessageType::kAppend, 2, 1, 1);
  append.entries = {{1, 1, EntryKind::kNoop, ""}, {1, 2, EntryKind::kCommand, "x"}};
  append.commit = 2;
  net.raft(1).Receive(append);
  Ready ready = net.raft(1).TakeReady();
  ASSERT_TRUE(ready.persist.has_value());
  EXPECT_EQ(ready.persist->entries.size(), 2u);
  EXPECT_TRUE(ready.messages.empty());
  EXPECT_TRUE(ready.committed.empty());  // committed, but not durable here
  net.raft(1).Persisted(ready.persist->id, true);
  ready = net.raft(1).TakeReady();
  ASSERT_EQ(ready.messages.size(), 1u);
  EXPECT_EQ(ready.messages[0].index, 2u);
  EXPECT_EQ(ready.committed.size(), 2u);
}

TEST(Raft, P101ALeaderDoesNotCountItselfBeforeItsEntryIsDurable) {
  RaftNet net(3);
  net.Elect(1);
  net.server(1).hold_persists = true;
  net.Cut(1, 3);
  ASSERT_OK(net.raft(1).Propose("x"));
  net.Settle();
  EXPECT_EQ(net.raft(2).log().last_index(), 2u);  // sent in parallel, and durable at server 2
  EXPECT_EQ(net.raft(1).commit_index(), 1u);
  net.FinishPersist(1);
  EXPECT_EQ(net.raft(1).commit_index(), 2u);
}

TEST(Raft, P101AnAcknowledgementOfAnEarlierTermIsNeverSaid) {
  RaftNet net(3);
  // Entries of term 1 come, and are replaced in term 2 before the storage has them.
  Message append = Make(MessageType::kAppend, 2, 1, 1);
  append.entries = {{1, 1, EntryKind::kNoop, ""}, {1, 2, EntryKind::kCommand, "old"}};
  net.raft(1).Receive(append);
  append = Make(MessageType::kAppend, 3, 1, 2);
  append.entries = {{2, 1, EntryKind::kNoop, ""}};
  net.raft(1).Receive(append);
  Ready ready = net.raft(1).TakeReady();
  ASSERT_TRUE(ready.persist.has_value());
  ASSERT_OK(net.server(1).storage.Persist(*ready.persist));
  net.raft(1).Persisted(ready.persist->id, true);
  ready = net.raft(1).TakeReady();
  for (const Message& m : ready.messages) {
    EXPECT_EQ(m.to, S(3));
    EXPECT_EQ(m.index, 1u);
  }
  EXPECT_EQ(ready.messages.size(), 1u);
}

TEST(Raft, P101StepsTakenTogetherArePersistedTogether) {
  RaftNet net(1);
  net.Elect(1);
  ASSERT_OK(net.raft(1).Propose("a"));
  ASSERT_OK(net.raft(1).Propose("b"));
  Ready ready = net.raft(1).TakeReady();
  ASSERT_TRUE(ready.persist.has_value());
  EXPECT_EQ(ready.persist->entries.size(), 2u);
  // One request at a time: what comes now waits.
  ASSERT_OK(net.raft(1).Propose("c"));
  EXPECT_FALSE(net.raft(1).TakeReady().persist.has_value());
  net.raft(1).Persisted(ready.persist->id, true);
  ready = net.raft(1).TakeReady();
  ASSERT_TRUE(ready.persist.has_value());
  EXPECT_EQ(ready.persist->entries.size(), 1u);
}

TEST(Raft, P106AVoterThatLostItsMemoryIsAnotherServer) {
  RaftNet net(3);
  net.Elect(1);
  net.Propose(1, "x");
  // Server 3 loses its disk. Under a new id it hears nothing that is meant for the old one.
  net.Stop(3);
  Raft& fresh = net.Add(33);
  Message vote = Make(MessageType::kVote, 2, 3, 9);
  vote.index = 10;
  vote.log_term = 8;
  fresh.Receive(vote);
  net.Settle();
  EXPECT_EQ(fresh.term(), 0u);
  EXPECT_EQ(fresh.vote(), kNoServer);
  // It is no voter, and never campaigns.
  net.Tick(33, 100);
  EXPECT_EQ(fresh.role(), Role::kFollower);
  EXPECT_EQ(fresh.term(), 0u);
}

TEST(Raft, P106TermVoteAndLogOutliveARestart) {
  RaftNet net(3);
  net.Elect(1);
  net.Propose(1, "x");
  for (const std::uint64_t id : {1, 2, 3}) {
    net.Stop(id);
    Raft& raft = net.Start(id);
    EXPECT_EQ(raft.term(), 1u);
    EXPECT_EQ(raft.vote(), S(1));
    EXPECT_EQ(raft.log().last_index(), 2u);
    EXPECT_EQ(raft.commit_index(), 0u);
  }
  // A vote that was given in this term is not given again.
  Message vote = Make(MessageType::kVote, 3, 2, 1);
  vote.index = 9;
  vote.log_term = 1;
  net.raft(2).Receive(vote);
  const Ready ready = net.raft(2).TakeReady();
  ASSERT_TRUE(Has(ready.messages, MessageType::kVoteReply));
  EXPECT_TRUE(ready.messages[0].reject);
}

TEST(Raft, P107AFailedPersistMakesTheLeaderResignAndIsTriedAgain) {
  RaftNet net(3);
  net.Elect(1);
  net.server(1).storage.FailNext(2);
  ASSERT_OK(net.raft(1).Propose("x"));
  net.Settle();
  EXPECT_EQ(net.raft(1).role(), Role::kFollower);
  EXPECT_TRUE(net.raft(1).persist_failed());
  EXPECT_EQ(net.raft(1).commit_index(), 1u);
  // It tries again from the next tick on, and keeps quiet until that succeeds.
  EXPECT_FALSE(net.raft(1).Campaign().ok());
  net.Tick(1);
  EXPECT_TRUE(net.raft(1).persist_failed());
  net.Tick(1);
  EXPECT_FALSE(net.raft(1).persist_failed());
  EXPECT_EQ(net.server(1).storage.last_index(), 2u);
  net.Elect(2);
  EXPECT_EQ(net.Commands(2), std::vector<std::string>{"x"});
}

TEST(Raft, P107NobodyHearsWhatCouldNotBePersisted) {
  RaftNet net(3);
  net.server(2).storage.FailNext(1);
  Message vote = Make(MessageType::kVote, 1, 2, 3);
  net.raft(2).Receive(vote);
  net.Pump(2);
  EXPECT_TRUE(net.wire().empty());
  net.raft(2).Tick(0);
  net.Pump(2);
  EXPECT_TRUE(net.wire().empty());  // the vote is durable now, but was not when it was asked for
  EXPECT_EQ(net.server(2).storage.state().hard_state, (HardState{3, S(1)}));
}

TEST(Raft, MessagesForAnotherServerAreDropped) {
  RaftNet net(3);
  net.raft(1).Receive(Make(MessageType::kHeartbeat, 2, 3, 7));
  net.raft(1).Receive(Make(MessageType::kHeartbeat, 1, 1, 7));
  EXPECT_EQ(net.raft(1).term(), 0u);
}

}  // namespace
}  // namespace ring::consensus
