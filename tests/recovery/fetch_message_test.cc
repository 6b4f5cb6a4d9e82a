// The messages of a fetch, whole and damaged.
#include "ring/recovery/fetch_message.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

FetchRequest SomeRequest() {
  FetchRequest request;
  request.kind = FetchKind::kSnapshot;
  request.group = GroupId(4);
  request.shard = ShardId(2);
  request.epoch = Epoch(77);
  request.id = 5;
  request.piece = 9;
  request.index = 1234;
  request.line = 6;
  request.version = Version(Epoch(3), 8);
  request.memgests = {MemgestId(1), MemgestId(9)};
  return request;
}

TEST(FetchMessageTest, ComesBackAsItWas) {
  EXPECT_THAT(DecodeFetchRequest(EncodeFetchRequest(SomeRequest())), IsOkAndHolds(SomeRequest()));
  const std::string bytes = EncodeFetchAnswer({7, 3, "piece"});
  ASSERT_OK_AND_ASSIGN(const FetchAnswer answer, DecodeFetchAnswer(bytes));
  EXPECT_EQ(answer.id, 7u);
  EXPECT_EQ(answer.piece_count, 3u);
  EXPECT_EQ(answer.piece, "piece");
  ASSERT_OK_AND_ASSIGN(const FetchAnswer early, DecodeFetchAnswer(EncodeFetchAnswer({7, 0, "x"})));
  EXPECT_EQ(early.piece_count, 0u) << "not known yet";
  EXPECT_THAT(DecodeValueAnswer(EncodeFetchAnswer({7, 0, "x"})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const FetchAnswer value, DecodeValueAnswer(bytes));
  EXPECT_EQ(value.piece_count, 3u);
}

TEST(FetchMessageTest, EveryCutAndEveryExtraByteIsRefused) {
  const std::string bytes = EncodeFetchRequest(SomeRequest());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(DecodeFetchRequest(bytes.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeFetchRequest(bytes + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  for (std::size_t size = 0; size < 12; ++size)
    EXPECT_THAT(DecodeFetchAnswer(EncodeFetchAnswer({7, 3, ""}).substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FetchMessageTest, WhatContradictsItselfIsRefused) {
  FetchRequest request = SomeRequest();
  request.kind = FetchKind::kTail;
  EXPECT_THAT(DecodeFetchRequest(EncodeFetchRequest(request)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  request.kind = static_cast<FetchKind>(4);
  EXPECT_THAT(DecodeFetchRequest(EncodeFetchRequest(request)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  request = SomeRequest();
  request.memgests.clear();
  EXPECT_THAT(DecodeFetchRequest(EncodeFetchRequest(request)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::recovery
