// tests/cluster/cluster_state_fixture.h — the state machine with six nodes, one of them a spare.
//
// What:      ClusterStateFixture applies commands; a refused one must change nothing.
// Threads:   one.
// Errors:    a command that is not refused as expected, or that changed something, fails the test.
#ifndef RING_TESTS_CLUSTER_CLUSTER_STATE_FIXTURE_H_
#define RING_TESTS_CLUSTER_CLUSTER_STATE_FIXTURE_H_

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/cluster/cluster_state.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {

class ClusterStateFixture : public ::testing::Test {
 protected:
  // Nodes n0..n5 registered with incarnations 100.., n5 the spare.
  ClusterStateFixture() : state_(FailOverView()) {
    for (int i = 0; i < 6; ++i) EXPECT_OK(Do(Register(i, 100 + i)).status);
  }

  ClusterResult Do(const ClusterCommand& command) { return state_.Apply(command); }
  const View& view() const { return *state_.view(); }
  const GroupView& group(int g) const { return view().groups[static_cast<std::size_t>(g)]; }
  void ExpectRefused(const ClusterCommand& command, const std::string& what,
                     absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
    const std::string before = state_.Snapshot();
    EXPECT_THAT(Do(command).status, ::ring::testing::StatusIs(code, ::testing::HasSubstr(what)));
    EXPECT_EQ(state_.Snapshot(), before) << "kind=" << command.index() + 1;
  }
  void Fail(int node, std::uint64_t incarnation) {
    ASSERT_OK(Do(FailNode{NodeId(static_cast<std::uint32_t>(node)), Incarnation(incarnation), "x"})
                  .status);
  }

  ClusterState state_;
};

}  // namespace ring::cluster

#endif  // RING_TESTS_CLUSTER_CLUSTER_STATE_FIXTURE_H_
