#include "ring/base/check.h"

#include "gtest/gtest.h"

namespace ring {
namespace {

TEST(Check, ATrueConditionDoesNotEvaluateItsMessage) {
  int evaluations = 0;
  RING_CHECK(true) << ++evaluations;
  EXPECT_EQ(evaluations, 0);
}

TEST(Check, EvaluatesItsConditionOnce) {
  int evaluations = 0;
  RING_CHECK(++evaluations > 0);
  EXPECT_EQ(evaluations, 1);
}

TEST(Check, IsAStatementThatFitsAnIfWithoutBraces) {
  bool other = false;
  if (true)
    RING_CHECK(true);
  else
    other = true;
  EXPECT_FALSE(other);
}

TEST(CheckDeathTest, AFalseConditionEndsTheProcessWithPlaceConditionAndMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int shard = 7;
  EXPECT_DEATH(RING_CHECK(shard < 3) << "shard=" << shard,
               "check_test.cc:[0-9]+: check failed: shard < 3 shard=7");
}

TEST(CheckDeathTest, DcheckIsACheckInDebugAndNothingInRelease) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEBUG_DEATH(RING_DCHECK(false) << "slow", "check failed: false slow");
}

}  // namespace
}  // namespace ring
