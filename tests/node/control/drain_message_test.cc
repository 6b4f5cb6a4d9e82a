#include "ring/node/control/drain_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using Answers = std::vector<std::pair<NodeId, DrainAnswer>>;

// Two shards of one group, at nodes 0 and 1 of the starts 10 and 11.
cluster::View TwoShards() {
  cluster::View view;
  view.s = 2;
  view.groups.resize(1);
  view.groups[0].roles = {NodeId(0), NodeId(1)};
  view.groups[0].incarnations = {Incarnation(10), Incarnation(11)};
  return view;
}

DrainAnswer Counted(std::uint64_t incarnation, int shard, coordinator::DrainCounts counts) {
  return {Incarnation(incarnation),
          {{GroupId(0), ShardId(static_cast<std::uint16_t>(shard)), counts}}};
}

TEST(DrainMessage, SumsWhatEachCoordinatorCounted) {
  const auto sum = SumOfShards(TwoShards(), Answers{{NodeId(0), Counted(10, 0, {.keys = 1})},
                                                    {NodeId(1), Counted(11, 1, {.pending = 2})}});
  ASSERT_OK(sum);
  EXPECT_EQ(sum->keys, 1u);
  EXPECT_EQ(sum->pending, 2u);
}

// It lost its memory and has not registered yet: by the view its former start still has the shard,
// whose values are at the members.
TEST(DrainMessage, G10ANodeThatStartedAgainHasCountedNothing) {
  const DrainAnswer again{Incarnation(12), {}};
  EXPECT_THAT(
      SumOfShards(TwoShards(), Answers{{NodeId(0), Counted(10, 0, {})}, {NodeId(1), again}}),
      StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("shard=1")));
}

TEST(DrainMessage, G10AStartThatHadTheShardBeforeIsNotItsCoordinator) {
  EXPECT_THAT(SumOfShards(TwoShards(),
                          Answers{{NodeId(0), Counted(10, 0, {})}, {NodeId(1), Counted(9, 1, {})}}),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(DrainMessage, G10TheShardsOfOthersDoNotCount) {
  EXPECT_THAT(SumOfShards(TwoShards(), Answers{{NodeId(0), Counted(10, 0, {})},
                                               {NodeId(1), Counted(11, 0, {})}}),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST(DrainMessage, AnAnswerIsReadAsItWasWritten) {
  DrainAnswer answer = Counted(11, 1, {.keys = 1, .versions = 2, .records = 3, .pending = 4});
  answer.shards.push_back({GroupId(3), ShardId(0), {.keys = 5}});
  const std::string bytes = EncodeDrainAnswer(answer);
  const auto read = DecodeDrainAnswer(bytes);
  ASSERT_OK(read);
  EXPECT_EQ(EncodeDrainAnswer(*read), bytes);
  ASSERT_EQ(read->shards.size(), 2u);
  EXPECT_EQ(read->shards[1].counts.keys, 5u);
  EXPECT_THAT(DecodeDrainAnswer(absl::string_view(bytes).substr(0, bytes.size() - 1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::node
