// Values that are asked for together: of sources that a test answers for.
#include "ring/node/recovery/value_calls.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::StatusIs;

class ValueCallsTest : public ::testing::Test {
 protected:
  struct Call {
    NodeId source;
    ControlType type = ControlType::kPing;
    std::string body;
    ControlReply done;
  };

  ValueCallsTest() {
    calls_.emplace(
        [this](NodeId source, ControlType type, std::string body, CallWait, ControlReply done) {
          sent_.push_back({source, type, std::move(body), std::move(done)});
        });
  }
  // What comes of it goes to answers_, by the line.
  void Send(std::uint32_t source, std::uint32_t line, std::uint32_t length) {
    recovery::FetchRequest request;
    request.kind = recovery::FetchKind::kValue;
    request.line = line;
    request.memgests = {MemgestId(1)};
    answers_.resize(std::max<std::size_t>(answers_.size(), line + 1));
    calls_->Send(NodeId(source), request, length, CallWait::kAsSaid,
                 [this, line](absl::StatusOr<std::string> answer) {
                   answers_[line] = std::move(answer);
                   if (line == ends_at_) calls_.reset();
                   if (line == asks_again_at_) Send(1, line + 100, 10);
                 });
  }
  Call Take() {
    Call call = std::move(sent_.front());
    sent_.pop_front();
    return call;
  }

  std::deque<Call> sent_;
  std::vector<std::optional<absl::StatusOr<std::string>>> answers_;
  std::optional<ValueCalls> calls_;
  std::uint32_t ends_at_ = ~0u;
  std::uint32_t asks_again_at_ = ~0u;
};

TEST_F(ValueCallsTest, SmallValuesOfOneSourceGoInOneMessageAndLargeOnesAtOnce) {
  for (std::uint32_t line = 0; line < 6; ++line) Send(1 + line % 2, line, 100);
  EXPECT_TRUE(sent_.empty());
  Send(1, 6, recovery::kBatchedSizeMax + 1);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(Take().type, ControlType::kFetch);
  calls_->Flush();
  ASSERT_EQ(sent_.size(), 2u);
  for (const std::uint32_t source : {1, 2}) {
    Call call = Take();
    EXPECT_EQ(call.source, NodeId(source));
    EXPECT_EQ(call.type, ControlType::kFetchValues);
    ASSERT_OK_AND_ASSIGN(const auto requests, recovery::DecodeValueBatch(call.body));
    ASSERT_EQ(requests.size(), 3u);
    std::string bytes;
    for (const recovery::FetchRequest& request : requests)
      recovery::AddBatchAnswer(std::to_string(request.line), &bytes);
    call.done(std::move(bytes));
  }
  for (std::uint32_t line = 0; line < 6; ++line) {
    ASSERT_TRUE(answers_[line].has_value());
    EXPECT_EQ(**answers_[line], std::to_string(line));
  }
  calls_->Flush();
  EXPECT_TRUE(sent_.empty());
}

TEST_F(ValueCallsTest, OneAloneIsAskedForAsEver) {
  Send(1, 0, 100);
  calls_->Flush();
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_.front().type, ControlType::kFetch);
}

// F11: a source's answer is bounded, by count and by bytes.
TEST_F(ValueCallsTest, F11AMessageAsksForSoManyAndSoMuchAtMost) {
  for (std::uint32_t line = 0; line < recovery::kBatchMax; ++line) Send(1, line, 1);
  ASSERT_EQ(sent_.size(), 1u);
  const std::size_t many = ValueCalls::kBatchBytesMax / recovery::kBatchedSizeMax;
  for (std::uint32_t line = 0; line < many; ++line) Send(1, line, recovery::kBatchedSizeMax);
  ASSERT_EQ(sent_.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const auto requests, recovery::DecodeValueBatch(sent_.back().body));
  EXPECT_EQ(requests.size(), many);
}

TEST_F(ValueCallsTest, EachIsToldOfItsOwnFailureAndAllOfTheMessages) {
  Send(1, 0, 10);
  Send(1, 1, 10);
  calls_->Flush();
  std::string bytes;
  recovery::AddBatchAnswer(absl::NotFoundError("gone"), &bytes);
  recovery::AddBatchAnswer(std::string("here"), &bytes);
  Take().done(bytes);
  EXPECT_THAT(*answers_[0], StatusIs(absl::StatusCode::kNotFound, "gone"));
  EXPECT_EQ(**answers_[1], "here");
  for (const absl::StatusOr<std::string>& answer :
       {absl::StatusOr<std::string>(absl::UnavailableError("lost")),
        absl::StatusOr<std::string>("too short")}) {
    Send(1, 2, 10);
    Send(1, 3, 10);
    calls_->Flush();
    Take().done(answer);
    const auto code =
        answer.ok() ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kUnavailable;
    EXPECT_THAT(*answers_[2], StatusIs(code));
    EXPECT_THAT(*answers_[3], StatusIs(code));
  }
}

TEST_F(ValueCallsTest, WhoAsksWithinAnAnswerIsSentBehindIt) {
  asks_again_at_ = 0;
  Send(1, 0, 10);
  Send(1, 1, 10);
  calls_->Flush();
  Take().done(absl::UnavailableError("lost"));
  ASSERT_EQ(sent_.size(), 1u);
  ASSERT_TRUE(answers_[1].has_value());
}

TEST_F(ValueCallsTest, WhoEndsWithinAnAnswerIsToldNothingMore) {
  ends_at_ = 0;
  Send(1, 0, 10);
  Send(1, 1, 10);
  calls_->Flush();
  Take().done(absl::UnavailableError("lost"));
  EXPECT_TRUE(answers_[0].has_value());
  EXPECT_FALSE(answers_[1].has_value());
}

}  // namespace
}  // namespace ring::node
