// What is asked for along a repair graph, whole and damaged.
#include "ring/recovery/partial_message.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using ring::testing::IsOkAndHolds;
using ring::testing::StatusIs;

// A root with a leaf, and with a step that has two leaves.
PartialRequest Tree() {
  PartialRequest request{GroupId(1), MemgestId(2), Epoch(3), NodeId(4), 5, 6, 7, {}};
  request.steps = {{ShardId(0), 10, 20, 2},
                   {ShardId(1), 11, 21, 0},
                   {ShardId(2), 12, 22, 2},
                   {ShardId(3), 13, 23, 0},
                   {ShardId(4), 14, 24, 0}};
  return request;
}

TEST(PartialMessage, ComesBackAsItWas) {
  EXPECT_THAT(DecodePartialRequest(Encode(Tree())), IsOkAndHolds(Tree()));
}

TEST(PartialMessage, ChildrenAreTheSubtreesInOrder) {
  const PartialRequest request = Tree();
  const auto children = Children(request.steps);
  ASSERT_EQ(children.size(), 2u);
  ASSERT_EQ(children[0].size(), 1u);
  EXPECT_EQ(children[0][0].block, 11u);
  ASSERT_EQ(children[1].size(), 3u);
  EXPECT_EQ(children[1][0].block, 12u);
  EXPECT_EQ(Children(children[1]).size(), 2u);
  EXPECT_TRUE(Children(children[0]).empty());
}

TEST(PartialMessage, EveryCutAndEveryExtraByteIsRefused) {
  const std::string bytes = Encode(Tree());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(DecodePartialRequest(bytes.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodePartialRequest(bytes + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PartialMessage, StepsThatAreNoTreeAreRefused) {
  const auto refuse = [](const PartialRequest& request) {
    EXPECT_THAT(DecodePartialRequest(Encode(request)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  };
  PartialRequest empty = Tree();
  empty.steps.clear();
  refuse(empty);
  PartialRequest lacks_one = Tree();
  lacks_one.steps[0].child_count = 3;
  refuse(lacks_one);
  PartialRequest two_trees = Tree();
  two_trees.steps[0].child_count = 1;
  refuse(two_trees);
  PartialRequest wide = Tree();
  wide.steps[4].child_count = 255;
  refuse(wide);
  PartialRequest long_chain = Tree();
  long_chain.steps.assign(PartialRequest::kStepsMax + 1, {ShardId(0), 0, 1, 1});
  long_chain.steps.back().child_count = 0;
  refuse(long_chain);
}

}  // namespace
}  // namespace ring::recovery
