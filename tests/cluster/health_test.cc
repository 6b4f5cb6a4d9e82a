#include "ring/cluster/health.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cluster/view_builders.h"

namespace ring::cluster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Everything normal, protected, and 5 voters.
View HealthyView() {
  View view = TestView();
  for (GroupView& group : view.groups) {
    for (std::uint32_t i = 0; i < group.shards.size(); ++i) {
      NormalRecord& normal = group.shards[i].normal;
      normal.epoch = group.epoch;
      for (const NodeId node : group.roles) normal.holders.push_back({node, Incarnation(1)});
      const std::uint32_t all = 1u << i | 0b11000;  // both schemes use roles 3 and 4
      normal.memgests = {{MemgestId(1), all, all, false, {}}, {MemgestId(2), all, all, false, {}}};
    }
  }
  return view;
}

TEST(HealthWarnings, AreNoneForACompleteClusterAndOneThatStarts) {
  EXPECT_THAT(HealthWarnings(HealthyView()), IsEmpty());
  EXPECT_THAT(HealthWarnings(TestView()), IsEmpty());
}

TEST(HealthWarnings, L11SayThatTheConsensusGroupSurvivesLessThanTheData) {
  View view = HealthyView();
  view.voter_count = 3;  // f = 1, SRS(3,2) survives 2
  EXPECT_THAT(HealthWarnings(view), ElementsAre(HasSubstr("voters=3")));
  view.memgests[1].state = protocol::MemgestState::kDeleted;  // REP3 by quorum survives 1
  EXPECT_THAT(HealthWarnings(view), IsEmpty());
}

TEST(HealthWarnings, L10NameWhatHasNoHolder) {
  View view = HealthyView();
  view.groups[1].roles[2] = kNoNode;
  view.groups[1].roles[4] = kNoNode;
  const auto warnings = HealthWarnings(view);
  EXPECT_THAT(warnings, Contains(HasSubstr("group=1 shard=2")));
  EXPECT_THAT(warnings, Contains(HasSubstr("redundant roles without a node: 1")));
}

TEST(HealthWarnings, SayWhoIsDownAndWhetherItKeepsRoles) {
  View view = HealthyView();
  view.nodes[1].status = NodeStatus::kDown;
  view.nodes[5].status = NodeStatus::kDown;
  const auto warnings = HealthWarnings(view);
  EXPECT_THAT(warnings, Contains(HasSubstr("node 1 (n1) is down, and keeps its roles")));
  EXPECT_THAT(warnings, Contains(Not(HasSubstr("keeps"))));
}

TEST(HealthWarnings, E6SayWhatIsNotProtectedAndWhatWasLost) {
  View view = HealthyView();
  view.groups[0].epoch = Epoch(2);  // its shards are behind
  view.groups[2].shards[0].normal.memgests[0].complete = 0b01001;
  view.groups[2].shards[1].normal.memgests[1].active_from = {{Role(3), 7}};
  view.groups[3].shards[2].normal.memgests[1].lost = true;
  const auto warnings = HealthWarnings(view);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("not serve yet: shard_count=3"),
                                    HasSubstr("REP3 is not fully protected: shard_count=1"),
                                    HasSubstr("SRS32 is not fully protected: shard_count=1"),
                                    HasSubstr("SRS32 lost values")));
}

}  // namespace
}  // namespace ring::cluster
