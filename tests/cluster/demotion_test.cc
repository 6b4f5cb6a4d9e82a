// When a member that lags may lose its part (E5).
#include "ring/cluster/demotion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ring/cluster/cluster_state.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kNotNow = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr std::uint32_t kRole3 = 1u << 3;
constexpr std::uint32_t kRole4 = 1u << 4;

// Six nodes, group 0 serves, and everybody has everything.
View Whole(std::vector<protocol::MemgestDescriptor> memgests) {
  View view = InitialView(3, 2, TestNodes(6), std::move(memgests));
  view.fail_over = true;
  ClusterState state(view);
  for (int i = 0; i < 6; ++i) EXPECT_OK(state.Apply(Register(i, 100 + i)).status);
  for (std::uint16_t shard = 0; shard < 3; ++shard) {
    EXPECT_OK(state.Apply(NormalOf(*state.view(), 0, shard)).status);
  }
  return *state.view();
}

TEST(Demotion, E5OneOfThreeCopiesAndOneOfTwoParitiesMayGo) {
  const View view = Whole({Rep("REP3", 3), Srs("SRS32", 3, 2)});
  EXPECT_OK(CheckDemotion(view, GroupId(0), kRole3));
  EXPECT_OK(CheckDemotion(view, GroupId(0), kRole4));
  EXPECT_THAT(CheckDemotion(view, GroupId(0), kRole3 | kRole4),
              StatusIs(kNotNow, HasSubstr("REP3 cannot do without it")));
  EXPECT_THAT(CheckDemotion(view, GroupId(1), kRole4),
              StatusIs(kNotNow, HasSubstr("does not serve")));
}

// Role 3 is the only copy of Rep(2), and the only parity of SRS(2,1).
TEST(Demotion, E5TheLastOneStays) {
  for (const protocol::MemgestDescriptor& memgest : {Rep("M", 2), Srs("M", 2, 1)}) {
    const View view = Whole({Rep("REP3", 3), memgest});
    EXPECT_THAT(CheckDemotion(view, GroupId(0), kRole3),
                StatusIs(kNotNow, HasSubstr("memgest M cannot do without it")));
    EXPECT_OK(CheckDemotion(view, GroupId(0), kRole4));
  }
}

TEST(Demotion, E5OthersThatLackSomethingAreNoGroundToGoOn) {
  View view = Whole({Rep("REP3", 3), Srs("SRS32", 3, 2)});
  MemgestNormal& rep3 = view.groups[0].shards[1].normal.memgests.front();
  rep3.complete &= ~kRole3;
  EXPECT_THAT(CheckDemotion(view, GroupId(0), kRole4),
              StatusIs(kNotNow, HasSubstr("shard=1: memgest REP3 is not protected")));
  EXPECT_OK(CheckDemotion(view, GroupId(0), kRole3)) << "it is the one that lacks something";
}

TEST(Demotion, E5CoordinatorsAndVacantRolesAreRefused) {
  View view = Whole({Rep("REP3", 3)});
  EXPECT_THAT(CheckDemotion(view, GroupId(0), 1), StatusIs(kInvalid));
  EXPECT_THAT(CheckDemotion(view, GroupId(0), 0), StatusIs(kInvalid));
  EXPECT_THAT(CheckDemotion(view, GroupId(0), 1u << 7), StatusIs(kInvalid));
  view.groups[0].roles[4] = kNoNode;
  EXPECT_THAT(CheckDemotion(view, GroupId(0), kRole4),
              StatusIs(kInvalid, HasSubstr("without a holder")));
}

}  // namespace
}  // namespace ring::cluster
