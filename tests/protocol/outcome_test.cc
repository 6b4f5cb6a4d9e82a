#include "ring/protocol/outcome.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::protocol {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Outcome, EveryCodeThatTravelsHasAStatusOfItsOwn) {
  int count = 0;
  std::set<std::string> texts;
  for (int code = 0; code <= 255; ++code) {
    if (!IsOutcome(static_cast<std::uint8_t>(code))) continue;
    ++count;
    const auto outcome = static_cast<Outcome>(code);
    const absl::Status status = ToStatus(outcome, "key=k");
    EXPECT_EQ(status.ok(), outcome == Outcome::kOk) << code;
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << code;
    EXPECT_TRUE(texts.insert(std::string(status.message())).second) << status;
  }
  EXPECT_EQ(count, 16);
}

TEST(Outcome, CanonicalCodesSayWhatTheCallerShouldDo) {
  EXPECT_THAT(ToStatus(Outcome::kNotFound, "key=\"a\""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("key=\"a\"")));
  EXPECT_THAT(ToStatus(Outcome::kVersionMismatch, ""), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(ToStatus(Outcome::kNoSuchMemgest, "memgest=gold"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("memgest=gold")));
  EXPECT_THAT(ToStatus(Outcome::kWrongOwner, ""), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ToStatus(Outcome::kUnavailable, ""), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ToStatus(Outcome::kResourceExhausted, ""),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ToStatus(Outcome::kDataLost, ""), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(Outcome, ACodeOfALaterReleaseIsAnErrorThatNamesIt) {
  EXPECT_THAT(ToStatus(static_cast<Outcome>(77), "key=\"a\""),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("code=77")));
}

}  // namespace
}  // namespace ring::protocol
