#include "tests/consensus/scenarios.h"

#include <set>
#include <string>

#include "tests/consensus/raft_net.h"

namespace ring::consensus {
namespace {

// These servers hear nobody for so long that they may vote, but do not campaign themselves.
void Silence(RaftNet& net, std::initializer_list<std::uint64_t> ids) {
  for (const std::uint64_t id : ids) net.Tick(id, 10);
}

// The first attempt may only tell it which term it is.
void Lead(RaftNet& net, std::uint64_t id) {
  for (int attempt = 0; attempt < 2 && net.raft(id).role() != Role::kLeader; ++attempt) {
    EXPECT_TRUE(net.raft(id).Campaign().ok());
    net.Settle();
  }
  EXPECT_EQ(net.raft(id).role(), Role::kLeader);
}

bool CarriesIndex(const Message& m, LogIndex index) {
  return m.type == MessageType::kAppend && m.index < index && m.index + m.entries.size() >= index;
}

}  // namespace

bool Figure8CommitsWhatIsReplaced() {
  RaftNet net;
  net.options.message_size_max = 1024;
  for (std::uint64_t id = 1; id <= 5; ++id) net.Add(id, Voters({1, 2, 3, 4, 5}));
  net.Elect(1);
  // (a) Server 1 replicates index 2 to server 2 alone. It fills a message.
  for (const std::uint64_t id : {3, 4, 5}) net.Cut(1, id);
  net.Propose(1, std::string(950, 'a'));
  net.Stop(1);
  // (b) Server 5 leads term 2, and nobody gets its entry.
  Silence(net, {2, 3, 4, 5});
  net.drop = [](const Message& m) { return m.from == S(5) && m.type == MessageType::kAppend; };
  Lead(net, 5);
  net.Stop(5);
  // (c) Server 1 leads term 3; index 2 reaches a majority, its own entry nobody.
  net.Heal();
  net.Start(1);
  // The first message to servers 3 and 4 only tells it that they lack index 2.
  std::set<ServerId> asked = {S(2)};
  net.drop = [&asked](const Message& m) {
    if (m.from != S(1) || m.type == MessageType::kVote) return false;
    return m.commit >= 2 || (CarriesIndex(m, 3) && !asked.insert(m.to).second);
  };
  Lead(net, 1);
  EXPECT_EQ(net.raft(1).term(), 3u);
  EXPECT_EQ(net.raft(3).log().last_index(), 2u);
  EXPECT_EQ(net.raft(4).log().last_index(), 2u);
  const bool committed = !net.Commands(1).empty();
  net.Stop(1);
  // (d) Server 5 comes back; its entry of term 2 wins over index 2 of term 1.
  net.drop = nullptr;
  net.Start(5);
  Silence(net, {3, 4});
  Lead(net, 5);
  EXPECT_EQ(net.raft(3).log().At(2).term, 2u);
  return committed;
}

bool ChangesOfTwoTermsCommitApart() {
  RaftNet net(4);
  net.Elect(1);
  // Server 1 takes server 4 out, but nobody hears of it.
  net.Isolate(1);
  EXPECT_TRUE(net.raft(1).ProposeConfiguration(Voters({1, 2, 3})).ok());
  net.Settle();
  // Server 2 leads term 2 and takes server 1 out, before an entry of its own is committed.
  Silence(net, {2, 3, 4});
  net.drop = [](const Message& m) { return m.type == MessageType::kAppend && m.to == S(3); };
  EXPECT_TRUE(net.raft(2).Campaign().ok());
  net.drop = [](const Message& m) { return m.type == MessageType::kAppend; };
  net.Settle();
  EXPECT_EQ(net.raft(2).role(), Role::kLeader);
  if (!net.raft(2).ProposeConfiguration(Voters({2, 3, 4})).ok()) return false;
  net.drop = nullptr;
  net.Cut(2, 3);
  net.Cut(4, 3);
  net.Tick(2, 3);
  EXPECT_EQ(net.raft(2).commit_index(), 3u);  // by servers 2 and 4
  // Server 1 comes back, and is elected by server 3: a quorum of {1, 2, 3}.
  net.Heal();
  for (const std::uint64_t id : {2, 4}) net.Isolate(id);
  Silence(net, {3});
  net.Tick(1, 60);
  return net.raft(1).commit_index() >= 3 && net.raft(1).log().At(3).term != 2;
}

bool ReplacedChangeStillHolds() {
  RaftNet net(5);
  net.Elect(1);
  for (const std::uint64_t id : {3, 4, 5}) net.Cut(1, id);
  EXPECT_TRUE(net.raft(1).ProposeConfiguration(Voters({1, 2, 3, 4})).ok());
  net.Settle();
  EXPECT_EQ(net.raft(2).configuration(), Voters({1, 2, 3, 4}));
  net.Stop(1);
  Silence(net, {3, 4, 5});
  net.Isolate(2);
  EXPECT_TRUE(net.raft(3).Campaign().ok());
  net.Settle();
  EXPECT_EQ(net.raft(3).role(), Role::kLeader);
  net.Heal();
  net.TickAll(5);
  EXPECT_EQ(net.raft(2).log().At(2).term, net.raft(3).term());
  return net.raft(2).configuration() != Voters({1, 2, 3, 4, 5});
}

bool TwoVotersChangeAtOnce() {
  RaftNet net(5);
  net.Elect(1);
  return net.raft(1).ProposeConfiguration(Voters({1, 2, 3})).ok();
}

bool EarlierRoundAnswersARead() {
  RaftNet net(3);
  net.Elect(1);
  // A round whose answers are long on their way.
  EXPECT_TRUE(net.raft(1).Read(1).ok());
  net.Pump(1);
  std::vector<Message> answers;
  net.drop = [&answers](const Message& m) {
    if (m.type != MessageType::kHeartbeatReply) return false;
    answers.push_back(m);
    return true;
  };
  net.Settle();
  net.drop = nullptr;
  EXPECT_EQ(answers.size(), 2u);
  // Meanwhile another server leads, and commits something.
  net.Isolate(1);
  Silence(net, {2, 3});
  net.Elect(2);
  net.Propose(2, "x");
  EXPECT_EQ(net.Commands(2).size(), 1u);
  // A read that begins now must see it.
  EXPECT_TRUE(net.raft(1).Read(2).ok());
  net.Heal();
  for (const Message& m : answers) {
    net.raft(1).Receive(m);
    net.Pump(1);
  }
  for (const ReadState& read : net.server(1).reads) {
    if (read.context == 2) return true;
  }
  return false;
}

}  // namespace ring::consensus
