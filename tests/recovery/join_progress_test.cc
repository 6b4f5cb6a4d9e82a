// A member that joined is complete when it has folded what its values came in, and lacks none.
#include "ring/recovery/join_progress.h"

#include <gtest/gtest.h>

namespace ring::recovery {
namespace {

constexpr MemgestId kOne{3};
constexpr MemgestId kOther{4};

// The PARTs came before the snapshot, the FINAL is entry 40: before it is folded nothing is absent.
TEST(JoinProgressTest, E6AMemberThatHasNotFoldedTheFinalIsNotComplete) {
  JoinProgress progress;
  progress.SetEnds({{kOne, 40}, {kOther, 7}});
  EXPECT_FALSE(progress.IsComplete({kOne, 39, 0, 0}));
  EXPECT_FALSE(progress.IsComplete({kOne, 40, 1, 1}));
  EXPECT_TRUE(progress.IsComplete({kOne, 40, 0, 1}));
  EXPECT_TRUE(progress.IsComplete({kOne, 1000, 0, 1}));
  EXPECT_FALSE(progress.IsComplete({kOther, 6, 0, 0}));
  EXPECT_TRUE(progress.IsComplete({kOther, 7, 0, 0}));
}

TEST(JoinProgressTest, E6NobodyIsCompleteWhileTheEndsAreNotKnown) {
  JoinProgress progress;
  EXPECT_FALSE(progress.has_ends());
  EXPECT_FALSE(progress.IsComplete({kOne, 1000, 0, 0}));
  progress.SetEnds({});
  EXPECT_TRUE(progress.has_ends());
  EXPECT_TRUE(progress.IsComplete({kOne, 0, 0, 0}));
  progress = JoinProgress();  // it joins again
  EXPECT_FALSE(progress.IsComplete({kOne, 1000, 0, 0}));
}

}  // namespace
}  // namespace ring::recovery
