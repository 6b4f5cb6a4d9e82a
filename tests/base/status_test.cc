#include "ring/base/status.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<int>> Make(int value) {
  if (value < 0) return absl::NotFoundError("value=-1");
  return std::make_unique<int>(value);
}

absl::StatusOr<int> Sum(int a, int b) {
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<int> left, Make(a));
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<int> right, Make(b));
  return *left + *right;
}

absl::Status Steps(const absl::Status& first, bool* reached) {
  RING_RETURN_IF_ERROR(first);
  *reached = true;
  return absl::OkStatus();
}

TEST(StatusMacros, AssignOrReturnMovesTheValueOut) { EXPECT_THAT(Sum(2, 3), IsOkAndHolds(5)); }

TEST(StatusMacros, AssignOrReturnPassesTheErrorOnUnchanged) {
  EXPECT_THAT(Sum(2, -1), StatusIs(absl::StatusCode::kNotFound, "value=-1"));
}

TEST(StatusMacros, ReturnIfErrorStopsAtTheFirstError) {
  bool reached = false;
  EXPECT_THAT(Steps(absl::AbortedError("stale"), &reached), StatusIs(absl::StatusCode::kAborted));
  EXPECT_FALSE(reached);
  EXPECT_OK(Steps(absl::OkStatus(), &reached));
  EXPECT_TRUE(reached);
}

TEST(StatusMatchers, TellCodesMessagesAndValuesApart) {
  const absl::StatusOr<int> five = 5;
  const absl::StatusOr<int> none = absl::NotFoundError("key=a");
  EXPECT_THAT(five, ::testing::Not(IsOkAndHolds(6)));
  EXPECT_THAT(none, ::testing::Not(IsOkAndHolds(5)));
  EXPECT_THAT(none, ::testing::Not(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(none, ::testing::Not(StatusIs(absl::StatusCode::kNotFound, "key=b")));
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kNotFound, HasSubstr("a")));
  EXPECT_THAT(absl::AbortedError("x"), ::testing::Not(::ring::testing::IsOk()));
}

TEST(StatusMatchers, AssertOkAndAssignGivesTheValue) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> value, Make(4));
  EXPECT_EQ(*value, 4);
}

}  // namespace
}  // namespace ring
