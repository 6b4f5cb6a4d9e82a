// How a leader sends to a server that it knows little of, that lost messages, or that lacks what is
// compacted: cases of etcd's raft (probe_and_replicate, heartbeat_resp_recovers_from_probing,
// slow_follower_after_compaction), written anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/consensus/raft_net.h"

namespace ring::consensus {
namespace {

std::ptrdiff_t AppendsTo(const RaftNet& net, std::uint64_t id) {
  return std::count_if(net.seen.begin(), net.seen.end(), [id](const Message& m) {
    return m.to == S(id) && m.type == MessageType::kAppend;
  });
}

// Server 1 leads, and takes server 2 for one that it does not know: entries to it were lost, and it
// refused what came behind them. What is sent to it now is lost, too.
class Probing : public ::testing::Test {
 protected:
  Probing() : net_(3) {
    net_.Elect(1);
    net_.drop = [](const Message& m) {
      return m.to == S(2) && m.type == MessageType::kAppend && !m.entries.empty();
    };
    for (int i = 0; i < 3; ++i) net_.Propose(1, "lost");
    const auto refused = [](const Message& m) {
      return m.from == S(2) && m.type == MessageType::kAppendReply && m.reject;
    };
    for (int i = 0; i < 10 && std::none_of(net_.seen.begin(), net_.seen.end(), refused); ++i)
      net_.TickAll();
    EXPECT_TRUE(std::any_of(net_.seen.begin(), net_.seen.end(), refused));
    net_.seen.clear();
  }
  RaftNet net_;
};

TEST_F(Probing, OneMessageIsOnItsWayAndTheNextWaitsForItsAnswer) {
  for (int i = 0; i < 5; ++i) net_.Propose(1, "kept back");
  EXPECT_EQ(AppendsTo(net_, 2), 0);
  EXPECT_EQ(AppendsTo(net_, 3), 10);  // who answers gets each at once, and then its commit
  EXPECT_EQ(net_.Commands(3).size(), 8u);
}

// A heartbeat is answered: so the server is there, and the probe was lost.
TEST_F(Probing, AnAnsweredHeartbeatLetsOneBeSentAgainAndThatBringsAll) {
  net_.Propose(1, "kept back");
  for (int beats = 0; beats < 3; ++beats) {
    net_.seen.clear();
    for (int i = 0; i < 10 && AppendsTo(net_, 2) == 0; ++i) net_.TickAll();
    EXPECT_EQ(AppendsTo(net_, 2), 1) << "beat " << beats;
  }
  net_.drop = nullptr;
  net_.TickAll(4);
  EXPECT_EQ(net_.Commands(2), net_.Commands(1));
  net_.seen.clear();
  ASSERT_TRUE(net_.raft(1).Propose("a").ok());
  ASSERT_TRUE(net_.raft(1).Propose("b").ok());
  net_.Settle();
  EXPECT_EQ(net_.Commands(2).back(), "b");
}

class Compaction : public ::testing::Test {
 protected:
  Compaction() {
    net_.options.trailing_entries = 5;
    for (const std::uint64_t id : {1, 2, 3}) net_.Add(id, Voters({1, 2, 3}));
    net_.Elect(1);
  }
  void ProposeWithout3(int count) {
    net_.Isolate(3);
    for (int i = 0; i < count; ++i) net_.Propose(1, "x");
    const Raft& raft = net_.raft(1);
    const LogIndex index = raft.applied_index();
    net_.raft(1).Compact(std::make_shared<const Snapshot>(
        Snapshot{index, *raft.log().TermAt(index), raft.configuration(), "state"}));
    net_.Settle();
    net_.Heal();
    net_.TickAll(8);
  }
  RaftNet net_;
};

TEST_F(Compaction, WhoLacksNoMoreThanTrailingEntriesGetsTheseAlone) {
  ProposeWithout3(4);
  EXPECT_EQ(net_.server(3).restored, nullptr);
  EXPECT_EQ(net_.Commands(3).size(), 4u);
}

TEST_F(Compaction, WhoLacksWhatIsGoneGetsTheSnapshotAndThenEntriesAsAnybody) {
  ProposeWithout3(20);
  ASSERT_NE(net_.server(3).restored, nullptr);
  EXPECT_EQ(net_.raft(3).applied_index(), net_.raft(1).applied_index());
  net_.seen.clear();
  net_.Propose(1, "behind it");
  EXPECT_EQ(net_.Commands(3), std::vector<std::string>{"behind it"});
  EXPECT_EQ(AppendsTo(net_, 3), AppendsTo(net_, 2));
}

}  // namespace
}  // namespace ring::consensus
