// tests/support/status_matchers.h — matchers for absl::Status and absl::StatusOr.
//
// What:      EXPECT_OK, ASSERT_OK, ASSERT_OK_AND_ASSIGN; IsOk(), StatusIs(code[, message matcher]),
//            IsOkAndHolds(value matcher).
// Threads:   those of gmock.
// Errors:    a mismatch prints the whole status.
// Source:    absl/status/status_matchers.h of later Abseil releases, whose names these keep.
#ifndef RING_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define RING_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/status.h"

namespace ring::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  const absl::Status& status = StatusOf(arg);
  if (!status.ok()) *result_listener << status;
  return status.ok();
}

// Matches the code alone.
MATCHER_P(StatusIs, code, std::string("has status code ") + absl::StatusCodeToString(code)) {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status;
  return status.code() == code;
}

// Matches the code, and the message against a string or a string matcher.
MATCHER_P2(StatusIs, code, message,
           std::string("has status code ") + absl::StatusCodeToString(code) +
               " and a message that " +
               ::testing::DescribeMatcher<std::string>(
                   ::testing::SafeMatcherCast<std::string>(message), negation)) {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status;
  return status.code() == code &&
         ::testing::Value(std::string(status.message()),
                          ::testing::SafeMatcherCast<std::string>(message));
}

// Matches an OK StatusOr whose value matches.
MATCHER_P(IsOkAndHolds, matcher, "is OK and holds a value that matches") {
  if (!arg.ok()) {
    *result_listener << arg.status();
    return false;
  }
  using Value = std::remove_reference_t<decltype(*arg)>;
  return ::testing::ExplainMatchResult(::testing::SafeMatcherCast<const Value&>(matcher), *arg,
                                       result_listener);
}

}  // namespace ring::testing

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::ring::testing::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::ring::testing::IsOk())
#define ASSERT_OK_AND_ASSIGN(lhs, expression) \
  RING_ASSERT_OK_AND_ASSIGN_IMPL_(RING_CONCAT_(ring_statusor_, __COUNTER__), lhs, expression)
#define RING_ASSERT_OK_AND_ASSIGN_IMPL_(statusor, lhs, expression) \
  auto statusor = (expression);                                    \
  ASSERT_OK(statusor.status());                                    \
  lhs = std::move(statusor).value()

#endif  // RING_TESTS_SUPPORT_STATUS_MATCHERS_H_
