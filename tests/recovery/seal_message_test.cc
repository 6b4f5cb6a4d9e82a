// The messages of a seal, whole and damaged.
#include "ring/recovery/seal_message.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

const SealRequest kRequest{GroupId(3), ShardId(2), Epoch(9), Epoch(4), Incarnation(77)};
const SealAnswer kAnswer{
    Incarnation(77), true, {{MemgestId(1), 5, 9}, {MemgestId(40), 0, 0}, {MemgestId(7), 8, 8}}};

TEST(SealMessageTest, ComesBackAsItWas) {
  EXPECT_THAT(DecodeSealRequest(EncodeSealRequest(kRequest)), IsOkAndHolds(kRequest));
  EXPECT_THAT(DecodeSealAnswer(EncodeSealAnswer(kAnswer)), IsOkAndHolds(kAnswer));
}

TEST(SealMessageTest, EveryCutAndEveryExtraByteIsRefused) {
  const std::string request = EncodeSealRequest(kRequest);
  for (std::size_t size = 0; size < request.size(); ++size)
    EXPECT_THAT(DecodeSealRequest(request.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeSealRequest(request + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  const std::string answer = EncodeSealAnswer(kAnswer);
  for (std::size_t size = 0; size < answer.size(); ++size)
    EXPECT_THAT(DecodeSealAnswer(answer.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeSealAnswer(answer + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SealMessageTest, WhatContradictsItselfIsRefused) {
  SealRequest request = kRequest;
  request.last_normal = request.epoch;
  EXPECT_THAT(DecodeSealRequest(EncodeSealRequest(request)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  SealAnswer answer = kAnswer;
  answer.logs[0].last = 4;
  EXPECT_THAT(DecodeSealAnswer(EncodeSealAnswer(answer)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::recovery
