// Several values in one message, whole and damaged.
#include "ring/recovery/value_batch.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

FetchRequest ValueRequest(std::uint32_t line) {
  FetchRequest request;
  request.kind = FetchKind::kValue;
  request.group = GroupId(4);
  request.shard = ShardId(2);
  request.epoch = Epoch(77);
  request.index = 1234;
  request.line = line;
  request.version = Version(Epoch(3), line);
  request.memgests = {MemgestId(1)};
  return request;
}

TEST(ValueBatchTest, ComesBackAsItWas) {
  const std::vector<FetchRequest> requests = {ValueRequest(5), ValueRequest(6), ValueRequest(9)};
  EXPECT_THAT(DecodeValueBatch(EncodeValueBatch(requests)), IsOkAndHolds(requests));
  std::string bytes;
  AddBatchAnswer(std::string("one"), &bytes);
  AddBatchAnswer(absl::NotFoundError("why"), &bytes);
  AddBatchAnswer(std::string(), &bytes);
  ASSERT_OK_AND_ASSIGN(const auto answers, DecodeBatchAnswers(bytes, 3));
  EXPECT_THAT(answers[0], IsOkAndHolds("one"));
  EXPECT_THAT(answers[1], StatusIs(absl::StatusCode::kNotFound, "why"));
  EXPECT_THAT(answers[2], IsOkAndHolds(""));
}

TEST(ValueBatchTest, EveryCutAndEveryExtraByteIsRefused) {
  const std::string requests =
      EncodeValueBatch(std::vector<FetchRequest>{ValueRequest(5), ValueRequest(6)});
  for (std::size_t size = 0; size < requests.size(); ++size) {
    EXPECT_THAT(DecodeValueBatch(absl::string_view(requests).substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << size;
  }
  EXPECT_THAT(DecodeValueBatch(requests + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  std::string answers;
  AddBatchAnswer(std::string("one"), &answers);
  AddBatchAnswer(absl::NotFoundError("why"), &answers);
  for (std::size_t size = 0; size < answers.size(); ++size) {
    EXPECT_THAT(DecodeBatchAnswers(absl::string_view(answers).substr(0, size), 2),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << size;
  }
  EXPECT_THAT(DecodeBatchAnswers(answers, 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeBatchAnswers(answers, 3), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ValueBatchTest, OnlySmallValuesAreAskedForTogetherAndNotTooMany) {
  FetchRequest request = ValueRequest(5);
  request.piece = 1;
  EXPECT_THAT(DecodeValueBatch(EncodeValueBatch({request})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  request = ValueRequest(5);
  request.kind = FetchKind::kTail;
  EXPECT_THAT(DecodeValueBatch(EncodeValueBatch({request})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::string many = EncodeValueBatch(std::vector<FetchRequest>(kBatchMax, ValueRequest(5)));
  EXPECT_OK(DecodeValueBatch(many).status());
  ++many[0];
  EXPECT_THAT(DecodeValueBatch(many), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodeValueBatch(std::string(2, '\0')), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::recovery
