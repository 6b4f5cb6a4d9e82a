#include "tests/sim/absences.h"

#include "gtest/gtest.h"

namespace ring::sim {
namespace {

constexpr NodeId kNode(3);

TEST(AbsencesTest, F5AShorterSilenceEndsNoLongerOne) {
  Absences absences;
  EXPECT_FALSE(absences.IsAway(kNode, 0));
  absences.Add(kNode, 1000);
  absences.Add(kNode, 200);  // it stands still, and stands still once more meanwhile
  EXPECT_TRUE(absences.IsAway(kNode, 200));
  EXPECT_TRUE(absences.IsAway(kNode, 999));
  EXPECT_FALSE(absences.IsAway(kNode, 1000));
  EXPECT_FALSE(absences.IsAway(NodeId(2), 0));
}

TEST(AbsencesTest, F12WhoIsDrainedIsAwayForEver) {
  Absences absences;
  absences.Add(kNode, Absences::kForEver);
  absences.Add(kNode, 200);
  EXPECT_TRUE(absences.IsAway(kNode, 1u << 30));
}

}  // namespace
}  // namespace ring::sim
