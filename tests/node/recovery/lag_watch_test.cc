// Who lags, and who only waits for somebody else.
#include "ring/node/recovery/lag_watch.h"

#include <gtest/gtest.h>

namespace ring::node {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kLimit = 100 * kMs;

class LagWatchTest : public ::testing::Test {
 protected:
  LagWatchTest() {
    member.ring_size = 1000;
    member.order = member.acked_order = 50;
    member.position = member.told_position = member.folded_position = 5000;
  }
  // Looks every 10 ms; gives after how many it was said to lag, 0: never.
  int LooksUntilLag(int count) {
    for (int i = 1; i <= count; ++i) {
      if (watch.Look(member, now += 10 * kMs, kLimit)) return i;
    }
    return 0;
  }

  LagWatch watch;
  LagWatch::Member member;
  std::uint64_t now = 1000 * kMs;
};

TEST_F(LagWatchTest, E5WhoDoesNotFoldWhatIsCommittedLags) {
  EXPECT_EQ(LooksUntilLag(20), 0);
  member.position = member.told_position = 5501;
  EXPECT_EQ(LooksUntilLag(20), 11) << "100 ms from when that was seen";
}

TEST_F(LagWatchTest, E5HalfARingIsAllowed) {
  member.position = member.told_position = 5500;
  EXPECT_EQ(LooksUntilLag(50), 0);
}

// Its coordinator writes as fast as it folds: the ring is always full.
TEST_F(LagWatchTest, E5WhoWorksOffWhatItHadToIsNotLate) {
  member.position = member.told_position = 5900;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(LooksUntilLag(9), 0);
    member.folded_position = member.told_position;
    member.position = member.told_position = member.folded_position + 900;
  }
}

// What it has not been told is committed it may not fold (E9): another member holds that up.
TEST_F(LagWatchTest, E5WhoWaitsForACommitIsNotLate) {
  member.position = 5900;
  EXPECT_EQ(LooksUntilLag(50), 0);
}

TEST_F(LagWatchTest, E5WhoDoesNotAcknowledgeLags) {
  member.order = 60;
  EXPECT_EQ(LooksUntilLag(50), 0) << "the log has room";
  member.holds_up = true;
  EXPECT_EQ(LooksUntilLag(50), 11);
}

// Who looks stood still itself, and what came meanwhile may not have been taken yet.
TEST_F(LagWatchTest, E5TimeInWhichNobodyLookedCountsLittle) {
  member.position = member.told_position = 5900;
  EXPECT_FALSE(watch.Look(member, now, kLimit));
  EXPECT_FALSE(watch.Look(member, now += 60'000 * kMs, kLimit));
  EXPECT_EQ(LooksUntilLag(50), 8);
}

TEST(LagPatienceTest, E5WhoLagsAgainSoonIsWaitedForTwiceAsLongUpToABound) {
  LagPatience patience;
  std::uint64_t now = 500 * kMs;
  EXPECT_EQ(patience.Of(kLimit, now), kLimit);
  std::uint64_t limit = kLimit;
  for (int i = 0; i < 10; ++i) {
    patience.OnProposed(now += 1000 * kMs);
    limit = std::min(2 * limit, kLimit << LagPatience::kDoublingsMax);
    EXPECT_EQ(patience.Of(kLimit, now), limit) << i;
  }
}

TEST(LagPatienceTest, E5WhoKeptUpForLongIsDemotedSoonAgain) {
  LagPatience patience;
  std::uint64_t now = 500 * kMs;
  for (int i = 0; i < 3; ++i) patience.OnProposed(now += 1000 * kMs);
  now += LagPatience::kForgottenNs;
  EXPECT_EQ(patience.Of(kLimit, now), kLimit);
  patience.OnProposed(now);
  EXPECT_EQ(patience.Of(kLimit, now), 2 * kLimit);
}

}  // namespace
}  // namespace ring::node
