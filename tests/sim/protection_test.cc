// What a simulated cluster is said to lack while members are away, and that it ends.
#include "tests/sim/protection.h"

#include <string>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProtectionTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(run_.Start());
    ASSERT_TRUE(run_.Await([this] { return Missing().empty(); })) << Missing();
  }
  std::string Missing(bool excuse_coded = false) {
    return absl::StrJoin(Unprotected(run_.cluster(),
                                     [excuse_coded](const protocol::MemgestDescriptor& memgest) {
                                       return excuse_coded &&
                                              memgest.scheme != protocol::Scheme::kReplicated;
                                     }),
                         "; ");
  }
  NodeId Holder(std::size_t role) { return run_.cluster().view().groups[0].roles[role]; }

  SimValues run_{ClusterOptions()};
};

TEST_F(ProtectionTest, E6ALostMemberIsMissedUntilAnotherOneHasEverything) {
  const NodeId parity = Holder(3);
  run_.cluster().CrashNode(parity);
  EXPECT_THAT(Missing(), HasSubstr(absl::StrCat("at role 3, node ", parity.value())));
  ASSERT_TRUE(run_.Await([&] { return Holder(3) != parity; }));
  EXPECT_THAT(Missing(), HasSubstr("at role 3, node "));
  ASSERT_TRUE(run_.Await([this] { return Missing().empty(); })) << Missing();
  EXPECT_NE(Holder(3), parity);
}

TEST_F(ProtectionTest, E6ALostCoordinatorIsMissedUntilAnotherOneHasEverything) {
  const NodeId owner = Holder(0);
  run_.cluster().CrashNode(owner);
  EXPECT_THAT(Missing(), HasSubstr("g0/s0 serves"));
  ASSERT_TRUE(run_.Await([this] { return Missing().empty(); })) << Missing();
  EXPECT_NE(Holder(0), owner);
}

// Who cannot be reached by a shard's coordinator, though the leader hears of both, never has
// everything, and that is told for as long.
TEST_F(ProtectionTest, E6WhoWaitsForEverIsNamed) {
  SimCluster& cluster = run_.cluster();
  cluster.CrashNode(Holder(3));
  ASSERT_TRUE(run_.Await([&] {
    return cluster.Alive({Holder(3), cluster.view().groups[0].incarnations[3]});
  }));
  const NodeId joiner = Holder(3);
  const NodeId owner = Holder(1);
  ASSERT_NE(owner, cluster.nodes()[0]->node().membership().leader());
  rdma::sim::SimNetwork& network = cluster.network();
  network.Block(cluster.nodes()[owner.value()]->host(), cluster.nodes()[joiner.value()]->host());
  run_.Pass(5'000 * SimValues::kMs);
  EXPECT_THAT(Missing(),
              HasSubstr(absl::StrCat("g0/s1 has all of REP3 at role 3, node ", Holder(3).value())));
  network.HealAll();
  ASSERT_TRUE(run_.Await([this] { return Missing().empty(); })) << Missing();
}

TEST_F(ProtectionTest, F10WhatIsExcusedIsNotMissed) {
  const NodeId parity = Holder(3);
  run_.cluster().CrashNode(parity);
  EXPECT_THAT(Missing(), HasSubstr("SRS32"));
  EXPECT_THAT(Missing(/*excuse_coded=*/true), testing::Not(HasSubstr("SRS")));
}

}  // namespace
}  // namespace ring::sim
