#include "ring/cluster/default_memgests.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/cluster/view.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

std::vector<std::string> Schemes(int s, int d) {
  std::vector<std::string> names;
  for (const auto& memgest : DefaultMemgests(s, d)) names.push_back(memgest.SchemeName());
  return names;
}

TEST(DefaultMemgests, AreThePapersSevenForThreeAndTwo) {
  EXPECT_THAT(Schemes(3, 2), ::testing::UnorderedElementsAre("Rep(1)", "Rep(2)", "Rep(3)", "Rep(4)",
                                                             "SRS(2,1)", "SRS(3,1)", "SRS(3,2)"));
  const View view = InitialView(3, 2, TestNodes(5), DefaultMemgests(3, 2));
  ASSERT_OK(view.Validate());
  EXPECT_EQ(view.FindMemgest(view.default_memgest)->SchemeName(), "Rep(3)");
}

TEST(DefaultMemgests, FitEveryShape) {
  for (int s = 1; s <= kShardCountMax; ++s) {
    for (int d = 0; d <= kRedundancyMax; ++d) {
      ASSERT_OK(InitialView(s, d, TestNodes(s + d), DefaultMemgests(s, d)).Validate());
    }
  }
  EXPECT_THAT(Schemes(1, 0), ::testing::ElementsAre("Rep(1)"));
}

}  // namespace
}  // namespace ring::cluster
