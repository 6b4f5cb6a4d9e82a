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

SnapshotRef SnapshotOf(RaftNet& net, std::uint64_t id) {
  const Raft& raft = net.raft(id);
  const LogIndex index = raft.applied_index();
  return std::make_shared<const Snapshot>(
      Snapshot{index, *raft.log().TermAt(index), raft.configuration(), "state"});
}

// Whatever of the failed request is durable: nothing but the room on its disk depends on it.
TEST(Raft, P107AnOwnSnapshotThatCannotBePersistedIsGivenUpAndTheLogGoesOn) {
  for (const std::size_t kept : {0, 1, 2}) {
    SCOPED_TRACE(kept);
    RaftNet net(3);
    net.Elect(1);
    net.Propose(1, "a");
    net.TickAll(2);
    net.Isolate(3);
    RaftNet::Server& server = net.server(2);
    server.hold_persists = true;
    ASSERT_OK(net.raft(1).Propose("b"));
    net.Pump(1);
    ASSERT_EQ(net.raft(2).applied_index(), 2u);
    net.raft(2).Compact(SnapshotOf(net, 2));
    while (net.DeliverOne()) {
    }
    ASSERT_TRUE(server.held.has_value());
    ASSERT_NE(server.held->snapshot, nullptr);
    ASSERT_EQ(server.held->entries.size(), 1u);
    server.storage.FailNext(1, kept);
    net.FinishPersist(2);
    EXPECT_TRUE(net.raft(2).persist_failed());
    net.Tick(2);
    ASSERT_TRUE(server.held.has_value());
    EXPECT_EQ(server.held->snapshot, nullptr);
    EXPECT_EQ(server.held->entries.size(), 1u);
    server.hold_persists = false;
    net.FinishPersist(2);
    net.TickAll(3);
    EXPECT_FALSE(net.raft(2).persist_failed());
    EXPECT_EQ(net.raft(1).commit_index(), 3u) << "with the acknowledgement of server 2";
    net.raft(2).Compact(SnapshotOf(net, 2));
    net.Settle();
    EXPECT_EQ(net.raft(2).snapshot()->index, 3u);
    net.Stop(2);
    EXPECT_EQ(net.Start(2).log().last_index(), 3u);
  }
}

TEST(Raft, P107ALeadersSnapshotThatCannotBePersistedIsNeverGivenUp) {
  RaftNet net;
  net.options.trailing_entries = 0;
  for (const std::uint64_t id : {1, 2, 3}) net.Add(id, Voters({1, 2, 3}));
  net.Elect(1);
  net.Isolate(3);
  net.Propose(1, "a");
  net.raft(1).Compact(SnapshotOf(net, 1));
  net.Settle();
  net.server(3).storage.FailNext(1);
  net.Heal();
  net.TickAll(6);
  EXPECT_FALSE(net.raft(3).persist_failed());
  ASSERT_NE(net.server(3).restored, nullptr);
  EXPECT_EQ(net.server(3).restored->index, 2u);
}

// Nothing else may be due for long: voters whose snapshots failed together would elect nobody.
TEST(Raft, P107AServerThatOwesItsDiskNothingFindsOutThatItTakesAgain) {
  RaftNet net(3);
  net.Elect(1);
  net.Propose(1, "a");
  net.TickAll(2);
  for (const std::uint64_t id : {1, 2, 3}) {
    net.server(id).hold_persists = true;
    net.raft(id).Compact(SnapshotOf(net, id));
    net.Pump(id);
    net.FinishPersist(id, /*ok=*/false);
  }
  EXPECT_EQ(net.leader(), nullptr);
  for (const std::uint64_t id : {1, 2, 3}) {
    EXPECT_FALSE(net.server(id).held.has_value()) << "it waits for the next tick";
    EXPECT_FALSE(net.raft(id).Campaign().ok());
  }
  net.TickAll();
  for (const std::uint64_t id : {1, 2, 3}) {
    ASSERT_TRUE(net.server(id).held.has_value());
    EXPECT_EQ(net.server(id).held->snapshot, nullptr);
    EXPECT_EQ(net.server(id).held->hard_state, (HardState{1, S(1)}));
    net.server(id).hold_persists = false;
    net.FinishPersist(id);
    EXPECT_FALSE(net.raft(id).persist_failed());
  }
  net.Elect(2);
}

TEST(Raft, MessagesForAnotherServerAreDropped) {
  RaftNet net(3);
  net.raft(1).Receive(Make(MessageType::kHeartbeat, 2, 3, 7));
  net.raft(1).Receive(Make(MessageType::kHeartbeat, 1, 1, 7));
  EXPECT_EQ(net.raft(1).term(), 0u);
}

}  // namespace
}  // namespace ring::consensus
