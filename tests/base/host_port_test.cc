#include "ring/base/host_port.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring {
namespace {

using ::ring::testing::IsOkAndHolds;
using ::ring::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(ResolveHostPort, ANumberIsItsOwnAddress) {
  EXPECT_THAT(ResolveHostPort("10.1.2.3:7800"), IsOkAndHolds("10.1.2.3:7800"));
  EXPECT_THAT(ResolveHostPort("[::1]:7800"), IsOkAndHolds("[::1]:7800"));
  EXPECT_THAT(ResolveHostPort("[0:0::1]:7800"), IsOkAndHolds("[::1]:7800"));
  EXPECT_THAT(ResolveHostPort("127.0.0.1:0"), IsOkAndHolds("127.0.0.1:0"));
  EXPECT_THAT(ResolveHostPort(":7800"), IsOkAndHolds(":7800"));
}

TEST(ResolveHostPort, ANameBecomesANumber) {
  EXPECT_THAT(ResolveHostPort("localhost:7800"),
              AnyOf(IsOkAndHolds("127.0.0.1:7800"), IsOkAndHolds("[::1]:7800")));
}

// By RFC 6761 no resolver knows it; one that cannot be asked says so.
TEST(ResolveHostPort, ANameThatNobodyKnowsIsNamed) {
  const absl::Status status = ResolveHostPort("nobody.invalid:7800").status();
  EXPECT_TRUE(absl::IsNotFound(status) || absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("nobody.invalid:7800: "));
}

TEST(ResolveHostPort, WhatIsNoHostPortIsRefused) {
  for (const char* const text : {"", "host", "host:", "host:x", "host:65536", "host:-1"})
    EXPECT_THAT(ResolveHostPort(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
}

}  // namespace
}  // namespace ring
