// What a cluster begins with is agreed upon like all that follows: files may differ.
#include <string>
#include <vector>

#include "tests/cluster/cluster_state_fixture.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;

// The same log, at nodes whose files differ or were changed since, gives the same state: else who
// replays it would take for a record what all others refused, and serve by it.
TEST(FoundingTest, I2TheFileOfANodeIsNothingToWhatWasAgreedUpon) {
  std::vector<View> files(4, FailOverView());
  files[1].overrun = OverrunPolicy::kContinue;
  files[2].value_size_max /= 2;
  NodeInfo more;
  more.id = NodeId(6);
  more.name = "n6";
  files[3].nodes.push_back(more);
  std::vector<std::string> states;
  for (const View& file : files) {
    ClusterState state = ClusterState::Unfounded(file);
    EXPECT_TRUE(state.Apply(Found{files[0]}).changed);
    for (int i = 0; i < 6; ++i) EXPECT_OK(state.Apply(Register(i, 100 + i)).status);
    EXPECT_FALSE(state.Apply(Register(6, 106)).status.ok()) << "no command added it";
    states.push_back(state.Snapshot());
    EXPECT_EQ(states.back(), states.front());
  }
}

TEST(FoundingTest, NothingCountsBeforeTheClusterIsFounded) {
  ClusterState state = ClusterState::Unfounded(FailOverView());
  const std::string before = state.Snapshot();
  EXPECT_THAT(state.Apply(Register(0, 100)).status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(state.Snapshot(), before);
  ASSERT_OK_AND_ASSIGN(ClusterState restored, ClusterState::FromSnapshot(before));
  EXPECT_FALSE(restored.founded());
  EXPECT_EQ(restored, state);
  EXPECT_OK(restored.Apply(EncodeClusterCommand(Found{FailOverView()})).status);
  EXPECT_TRUE(restored.founded());
  EXPECT_OK(restored.Apply(Register(0, 100)).status);
}

// Two leaders one after the other may have proposed it.
TEST(FoundingTest, TheFirstFoundCounts) {
  ClusterState state = ClusterState::Unfounded(FailOverView());
  ASSERT_OK(state.Apply(Found{FailOverView()}).status);
  const std::string before = state.Snapshot();
  View other = FailOverView();
  other.overrun = OverrunPolicy::kContinue;
  EXPECT_THAT(state.Apply(Found{other}).status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(state.Snapshot(), before);
}

TEST(FoundingTest, AnotherClustersIsRefusedAndChangesNothing) {
  View other = FailOverView();
  ++other.cluster;
  ClusterState state = ClusterState::Unfounded(FailOverView());
  const std::string before = state.Snapshot();
  EXPECT_THAT(state.Apply(Found{other}).status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(state.Snapshot(), before);
}

}  // namespace
}  // namespace ring::cluster
