#include "ring/base/pace.h"

#include <gtest/gtest.h>

namespace ring {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kPieceSize = 4096;

// What begins from one time to another, looking every microsecond.
std::uint64_t TakeAll(Pace& pace, std::uint64_t from_ns, std::uint64_t to_ns) {
  std::uint64_t bytes = 0;
  for (std::uint64_t now_ns = from_ns; now_ns < to_ns; now_ns += 1000) {
    while (pace.Ready(now_ns)) {
      pace.Take(kPieceSize);
      bytes += kPieceSize;
    }
  }
  return bytes;
}

TEST(Pace, NoMoreThanFiveMillisecondsComeAtOnceHoweverLongNobodyAsked) {
  Pace pace(64 * kMiB, kMiB);
  const std::uint64_t at_once = TakeAll(pace, 60'000'000'000, 60'000'000'001);
  EXPECT_LE(at_once, 64 * kMiB / 200 + kPieceSize);
  EXPECT_GT(at_once, 64 * kMiB / 400);
}

TEST(Pace, AllThatIsAskedForComesAtTheRate) {
  Pace pace(64 * kMiB, kMiB);
  const std::uint64_t bytes = TakeAll(pace, 1'000'000'000, 2'000'000'000);
  EXPECT_GT(bytes, 63 * kMiB);
  EXPECT_LT(bytes, 65 * kMiB);
}

TEST(Pace, StepsOfMoreThanIsLeftMakeTheNextOnesWait) {
  Pace pace(64 * kMiB, kMiB);
  ASSERT_TRUE(pace.Ready(1'000'000'000));
  pace.Take(64 * kMiB);
  EXPECT_FALSE(pace.Ready(1'900'000'000));
  EXPECT_TRUE(pace.Ready(2'010'000'000));
}

TEST(Pace, SmallThingsCountAsWhatTheirMessagesCost) {
  Pace pace(64 * kMiB, kMiB);
  std::uint64_t count = 0;
  for (std::uint64_t now_ns = 1'000'000'000; now_ns < 2'000'000'000; now_ns += 1000) {
    for (; pace.Ready(now_ns); ++count) pace.Take(1);
  }
  EXPECT_LE(count, 65 * kMiB / Pace::kLeastCost);
  ASSERT_FALSE(pace.Ready(2'000'000'000));
}

TEST(Pace, LimitsStayBetweenTheLeastRateAndTheConfiguredOne) {
  Pace pace(64 * kMiB, 8 * kMiB);
  TakeAll(pace, 0, 1'000'000'000);
  pace.Slow(0.001);
  std::uint64_t bytes = TakeAll(pace, 1'000'000'000, 2'000'000'000);
  EXPECT_GT(bytes, 7 * kMiB);
  EXPECT_LT(bytes, 9 * kMiB);
  pace.Slow(1);
  bytes = TakeAll(pace, 2'000'000'000, 3'000'000'000);
  EXPECT_GT(bytes, 63 * kMiB);
  EXPECT_LT(bytes, 65 * kMiB);
}

TEST(Pace, WhatOperationsWaitForLeavesADebtOfOneStepAtMost) {
  Pace pace(64 * kMiB, kMiB);
  ASSERT_TRUE(pace.Ready(1'000'000'000));
  for (int i = 0; i < 1000; ++i) pace.Take(kMiB);
  EXPECT_FALSE(pace.Ready(1'010'000'000));
  EXPECT_TRUE(pace.Ready(1'020'000'000));
}

TEST(Pace, SmallStepsTakeNothingFromTheDebtOfALargeOne) {
  Pace pace(64 * kMiB, kMiB);
  ASSERT_TRUE(pace.Ready(1'000'000'000));
  pace.Take(64 * kMiB);
  pace.Take(1);
  EXPECT_FALSE(pace.Ready(1'900'000'000));
}

TEST(Pace, ALeastRateAboveTheRateCountsAsThat) {
  Pace pace(kMiB, 64 * kMiB);
  pace.Slow(0.5);
  EXPECT_LT(TakeAll(pace, 1'000'000'000, 2'000'000'000), 2 * kMiB);
}

TEST(Pace, KnowsWhetherAnythingHadToWait) {
  Pace pace(kMiB, kMiB);
  ASSERT_TRUE(pace.Ready(1'000'000'000));
  EXPECT_FALSE(pace.Waits());
  pace.Take(kMiB);
  ASSERT_FALSE(pace.Ready(1'000'000'001));
  EXPECT_TRUE(pace.Waits());
  EXPECT_FALSE(pace.Waits());
}

TEST(Pace, KnowsWhetherAnybodyAsked) {
  Pace pace(kMiB, kMiB);
  EXPECT_FALSE(pace.WasAsked());
  pace.Ready(1);
  EXPECT_TRUE(pace.WasAsked());
  EXPECT_FALSE(pace.WasAsked());
}

}  // namespace
}  // namespace ring
