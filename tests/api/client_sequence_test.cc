#include "api/client_sequence.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::api {
namespace {

TEST(SequenceWindow, X3FirstIncompleteMovesOnlyOverCompleteNumbers) {
  SequenceWindow window;
  EXPECT_EQ(window.Next(), 1u);
  EXPECT_EQ(window.Next(), 2u);
  EXPECT_EQ(window.Next(), 3u);
  window.Complete(2);
  EXPECT_EQ(window.first_incomplete(), 1u);
  window.Complete(1);
  EXPECT_EQ(window.first_incomplete(), 3u);
  EXPECT_FALSE(window.idle());
  window.Complete(3);
  EXPECT_TRUE(window.idle());
}

TEST(SequenceWindow, X4AtMost1024NumbersAreOutstanding) {
  SequenceWindow window;
  for (std::uint64_t i = 1; i <= 1024; ++i) ASSERT_EQ(window.Next(), i);
  EXPECT_EQ(window.Next(), 0u);
  window.Complete(2);
  EXPECT_EQ(window.Next(), 0u);  // 1 still holds the window
  window.Complete(1);
  EXPECT_EQ(window.Next(), 1025u);
  EXPECT_EQ(window.Next(), 1026u);
  EXPECT_EQ(window.Next(), 0u);
}

TEST(SequenceWindow, AnyOrderOfCompletionEndsIdle) {
  SeededRandom random(ring::testing::SeedFor("sequence"));
  SequenceWindow window;
  std::vector<std::uint64_t> open;
  for (int i = 0; i < 50000; ++i) {
    if (random.Below(2) == 0) {
      if (const std::uint64_t seq = window.Next(); seq != 0) open.push_back(seq);
    } else if (!open.empty()) {
      const std::size_t at = random.Below(open.size());
      window.Complete(open[at]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (!open.empty()) {
      ASSERT_EQ(window.first_incomplete(), *std::min_element(open.begin(), open.end()));
    }
  }
  for (const std::uint64_t seq : open) window.Complete(seq);
  EXPECT_TRUE(window.idle());
}

}  // namespace
}  // namespace ring::api
