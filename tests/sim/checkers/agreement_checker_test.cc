// The checker of the consensus, against what no consensus may do.
#include "tests/sim/checkers/agreement_checker.h"

#include "gtest/gtest.h"
#include "tests/cluster/view_builders.h"
#include "tests/consensus/raft_net.h"

namespace ring::sim {
namespace {

class AgreementCheckerTest : public ::testing::Test {
 protected:
  // One server of its own, which leads and commits `data`.
  void Look(std::uint64_t id, const std::string& data, const cluster::View& view) {
    consensus::RaftNet net;
    net.Add(id, consensus::Voters({id}));
    net.Elect(id);
    if (!data.empty()) {
      EXPECT_TRUE(net.raft(id).Propose(data).ok());
    }
    net.Settle();
    checker_.Look(net.raft(id), view);
  }

  AgreementChecker checker_;
  cluster::View view_ = cluster::TestView();
};

TEST_F(AgreementCheckerTest, OneServerAgreesWithItself) {
  Look(1, "a", view_);
  Look(1, "a", view_);
  EXPECT_TRUE(checker_.violations().empty());
  EXPECT_EQ(checker_.entries(), 2u);
}

TEST_F(AgreementCheckerTest, TwoLeadersOfATermAreSeen) {
  Look(1, "a", view_);
  Look(2, "a", view_);
  ASSERT_EQ(checker_.violations().size(), 1u);
  EXPECT_NE(checker_.violations()[0].detail.find("two leaders"), std::string::npos);
}

TEST_F(AgreementCheckerTest, TwoEntriesAtAnIndexAreSeen) {
  Look(1, "a", view_);
  Look(2, "b", view_);
  ASSERT_EQ(checker_.violations().size(), 2u);
  EXPECT_NE(checker_.violations()[1].detail.find("two entries"), std::string::npos);
}

TEST_F(AgreementCheckerTest, ACommitIndexThatFallsIsSeen) {
  Look(1, "a", view_);
  Look(1, "", view_);
  ASSERT_EQ(checker_.violations().size(), 1u);
  EXPECT_NE(checker_.violations()[0].detail.find("fell"), std::string::npos);
}

TEST_F(AgreementCheckerTest, R10_6AServerThatStartedAgainLearnsAnewWhatIsCommitted) {
  Look(1, "a", view_);
  checker_.OnCrash(consensus::S(1));
  Look(1, "", view_);
  EXPECT_TRUE(checker_.violations().empty());
  Look(1, "b", view_);  // and that is looked at again
  ASSERT_EQ(checker_.violations().size(), 1u);
  EXPECT_NE(checker_.violations()[0].detail.find("two entries"), std::string::npos);
}

TEST_F(AgreementCheckerTest, ViewsOfOneNumberThatDifferAreSeen) {
  Look(1, "a", view_);
  view_.default_memgest = MemgestId(2);
  view_.nodes[0].name = "other";
  Look(2, "a", view_);
  ASSERT_EQ(checker_.violations().size(), 2u);
  EXPECT_NE(checker_.violations()[1].detail.find("view"), std::string::npos);
}

}  // namespace
}  // namespace ring::sim
