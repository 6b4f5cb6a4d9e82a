#include "ring/node/control/failure_detector.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cluster/view_builders.h"

namespace ring::node {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Node 0 leads; a node is silent after 10 ticks.
class FailureDetectorTest : public ::testing::Test {
 protected:
  FailureDetectorTest() : view_(cluster::TestView()) {
    for (cluster::NodeInfo& node : view_.nodes) {
      node.incarnation = Incarnation(100 + node.id.value());
      Hear(node.id.value(), 0);
    }
    for (int i = 0; i < 100; ++i) detector_.Tick();
  }
  void Hear(std::uint32_t node, std::uint64_t silent_ticks, std::uint64_t number = 1) {
    consensus::PeerStatus peer;
    peer.id = consensus::MakeServerId(static_cast<std::uint16_t>(node), number);
    peer.silent_ticks = silent_ticks;
    std::erase_if(peers_, [&](const auto& one) { return one.id == peer.id; });
    peers_.push_back(peer);
  }
  std::vector<NodeId> Silent() {
    return detector_.Silent(view_, peers_, [this](NodeId node) {
      return never_.contains(node)  ? FailureDetector::Link::kNever
             : lost_.contains(node) ? FailureDetector::Link::kLost
                                    : FailureDetector::Link::kUp;
    });
  }

  FailureDetector detector_{NodeId(0), 10, 1, 60};
  cluster::View view_;
  std::vector<consensus::PeerStatus> peers_;
  std::set<NodeId> lost_;
  std::set<NodeId> never_;
};

TEST_F(FailureDetectorTest, WhoIsSilentForLongIsNamed) {
  EXPECT_THAT(Silent(), IsEmpty());
  Hear(2, 9);
  EXPECT_THAT(Silent(), IsEmpty());
  Hear(2, 10);
  Hear(4, 50);
  EXPECT_THAT(Silent(), ElementsAre(NodeId(2), NodeId(4)));
}

TEST_F(FailureDetectorTest, L4ALostConnectionIsAHintAndNoProof) {
  lost_ = {NodeId(2)};
  Hear(2, 4);
  EXPECT_THAT(Silent(), IsEmpty());
  Hear(2, 5);
  EXPECT_THAT(Silent(), ElementsAre(NodeId(2)));
}

// A voter that came back leads before those who tried its former start in vain try again.
TEST_F(FailureDetectorTest, L4WhoWasNeverReachedHasTheTimeThatItTakes) {
  never_ = {NodeId(2)};
  Hear(2, 69);
  EXPECT_THAT(Silent(), IsEmpty());
  Hear(2, 70);
  EXPECT_THAT(Silent(), ElementsAre(NodeId(2)));
}

// Its disk hangs, or is full: it hears everything, and learns nothing that was agreed upon.
TEST_F(FailureDetectorTest, WhoAnswersAndIsDeafForLongIsNamed) {
  peers_[2].stuck_ticks = 10 * FailureDetector::kStuckDetections - 1;
  EXPECT_THAT(Silent(), IsEmpty());
  peers_[2].stuck_ticks = 10 * FailureDetector::kStuckDetections;
  ASSERT_EQ(consensus::NodeOf(peers_[2].id), 2);
  EXPECT_THAT(Silent(), ElementsAre(NodeId(2)));
  view_.nodes[2].incarnation = Incarnation(999);  // it has registered since
  EXPECT_THAT(Silent(), IsEmpty());
}

TEST_F(FailureDetectorTest, OnlyNodesThatAreUpAreFailed) {
  for (std::uint32_t i = 1; i < 6; ++i) Hear(i, 99);
  view_.nodes[1].status = cluster::NodeStatus::kDown;
  view_.nodes[2].status = cluster::NodeStatus::kRemoved;
  view_.nodes[3].status = cluster::NodeStatus::kDraining;
  view_.nodes[4].incarnation = Incarnation();  // never heard of: it holds nothing
  EXPECT_THAT(Silent(), ElementsAre(NodeId(3), NodeId(5)));
}

// A leader that was cut off from all hears some of them a little before the others.
TEST_F(FailureDetectorTest, AfterALeaderWasCutOffItselfEverybodyHasTimeToBeHeard) {
  for (std::uint32_t i = 1; i < 5; ++i) {
    Hear(i, 9);
    for (consensus::PeerStatus& peer : peers_) peer.voter = true;
  }
  EXPECT_THAT(Silent(), IsEmpty());
  Hear(1, 0);
  Hear(3, 0);
  Hear(2, 10);
  for (consensus::PeerStatus& peer : peers_) peer.voter = true;
  detector_.Tick();
  EXPECT_THAT(Silent(), IsEmpty());
  for (int i = 0; i < 10; ++i) detector_.Tick();
  EXPECT_THAT(Silent(), ElementsAre(NodeId(2)));
}

// heartbeat_ms = 2, detect_ms = 5: just before the answers to a heartbeat come, all were silent for
// two ticks.
TEST_F(FailureDetectorTest, L1VotersThatAnswerEachHeartbeatAreHeardHoweverShortTheDetection) {
  const auto others = [&](std::uint64_t silent_ticks) {
    for (std::uint32_t i = 1; i < 6; ++i) Hear(i, silent_ticks);
    for (consensus::PeerStatus& peer : peers_) peer.voter = true;
  };
  for (const std::uint64_t heartbeat : {1, 2, 3, 5}) {
    for (const std::uint64_t detect : {2 * heartbeat, 2 * heartbeat + 1, 6 * heartbeat}) {
      SCOPED_TRACE(testing::Message() << "heartbeat=" << heartbeat << " detect=" << detect);
      detector_ = FailureDetector(NodeId(0), detect, heartbeat, 0);
      std::uint64_t failed_at = 0;
      for (std::uint64_t tick = 1; tick <= 20 * heartbeat && failed_at == 0; ++tick) {
        detector_.Tick();
        others((tick - 1) % heartbeat + 1);
        Hear(2, tick);
        lost_ = {NodeId(4)};  // a connection that is made again is no silence
        const std::vector<NodeId> silent = Silent();
        if (silent.empty()) continue;
        EXPECT_THAT(silent, ElementsAre(NodeId(2)));
        failed_at = tick;
      }
      EXPECT_EQ(failed_at, detect);
    }
  }
}

TEST_F(FailureDetectorTest, ALeaderDoesNotFailItself) {
  Hear(0, 99);
  EXPECT_THAT(Silent(), IsEmpty());
}

// 10.6: a node that restarted has a new server beside the one that is being replaced.
TEST_F(FailureDetectorTest, AFormerServerOfANodeDoesNotSpeakForIt) {
  Hear(3, 99);
  Hear(3, 1, 77);
  EXPECT_THAT(Silent(), IsEmpty());
}

// Its registration may be agreed upon before its server has answered a heartbeat.
TEST_F(FailureDetectorTest, L8AStartThatJustRegisteredWasNotSilentBefore) {
  const auto down = [this](bool is) {
    view_.nodes[2].status = is ? cluster::NodeStatus::kDown : cluster::NodeStatus::kUp;
  };
  Hear(2, 50);
  EXPECT_THAT(Silent(), ElementsAre(NodeId(2)));
  const auto expect_patience = [&] {
    for (int i = 0; i < 10; ++i) {
      EXPECT_THAT(Silent(), IsEmpty()) << i;
      detector_.Tick();
    }
    EXPECT_THAT(Silent(), ElementsAre(NodeId(2)));
  };
  down(true);
  EXPECT_THAT(Silent(), IsEmpty());
  down(false);  // the same start, which was only thought to be lost
  expect_patience();
  view_.nodes[2].incarnation = Incarnation(777);
  expect_patience();
}

TEST_F(FailureDetectorTest, ANodeWithoutAServerIsCountedFromTheBeginningOfTheTenure) {
  peers_.clear();
  detector_.Reset();
  for (int i = 0; i < 9; ++i) detector_.Tick();
  EXPECT_THAT(Silent(), IsEmpty());
  detector_.Tick();
  EXPECT_EQ(Silent().size(), 5u);
}

}  // namespace
}  // namespace ring::node
