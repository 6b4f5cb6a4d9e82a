// The messages of a join, whole and damaged.
#include "ring/recovery/join_message.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
const ProgressRequest kRequest{GroupId(3), ShardId(2), Epoch(9)};
const std::vector<ValuesToCome> kAnswer = {{MemgestId(1), 77, 5, 9}, {MemgestId(40), 0, 0, 0}};

TEST(JoinMessageTest, ComesBackAsItWas) {
  const std::string bytes =
      EncodeInstallRequest({GroupId(3), ShardId(2), Epoch(9), 7, "some piece"});
  ASSERT_OK_AND_ASSIGN(const InstallRequest install, DecodeInstallRequest(bytes));
  EXPECT_EQ(install.group, GroupId(3));
  EXPECT_EQ(install.shard, ShardId(2));
  EXPECT_EQ(install.epoch, Epoch(9));
  EXPECT_EQ(install.attempt, 7);
  EXPECT_EQ(install.piece, "some piece");
  EXPECT_THAT(DecodeProgressRequest(EncodeProgressRequest(kRequest)), IsOkAndHolds(kRequest));
  EXPECT_THAT(DecodeProgressAnswer(EncodeProgressAnswer(kAnswer)), IsOkAndHolds(kAnswer));
}

TEST(JoinMessageTest, EveryCutAndEveryExtraByteIsRefused) {
  const std::string install = EncodeInstallRequest({GroupId(3), ShardId(2), Epoch(9), 7, "p"});
  for (std::size_t size = 0; size < install.size(); ++size)
    EXPECT_THAT(DecodeInstallRequest(install.substr(0, size)), StatusIs(kInvalidArgument));
  const std::string request = EncodeProgressRequest(kRequest);
  for (std::size_t size = 0; size < request.size(); ++size)
    EXPECT_THAT(DecodeProgressRequest(request.substr(0, size)), StatusIs(kInvalidArgument));
  EXPECT_THAT(DecodeProgressRequest(request + "x"), StatusIs(kInvalidArgument));
  const std::string answer = EncodeProgressAnswer(kAnswer);
  for (std::size_t size = 0; size < answer.size(); ++size)
    EXPECT_THAT(DecodeProgressAnswer(answer.substr(0, size)), StatusIs(kInvalidArgument));
  EXPECT_THAT(DecodeProgressAnswer(answer + "x"), StatusIs(kInvalidArgument));
}

}  // namespace
}  // namespace ring::recovery
