#include "ring/base/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring {
namespace {

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

TEST(Histogram, AnEmptyOneGivesZeros) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.Mean(), 0.0);
  EXPECT_EQ(histogram.Percentile(50), 0u);
}

TEST(Histogram, BucketsCoverEveryValueOnceAndInOrder) {
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < Histogram::kBucketCount; ++i) {
    const std::uint64_t last = Histogram::BucketMax(i);
    ASSERT_GE(last, next);
    ASSERT_EQ(Histogram::BucketOf(next), i);
    ASSERT_EQ(Histogram::BucketOf(last), i);
    next = last + 1;
  }
  EXPECT_EQ(next, 0u) << "the last bucket ends at the greatest value";
}

TEST(Histogram, ABucketIsNeverWiderThanItsValuesDividedBy128) {
  for (std::size_t i = 256; i < Histogram::kBucketCount; ++i) {
    const std::uint64_t first = Histogram::BucketMax(i - 1) + 1;
    ASSERT_LE(Histogram::BucketMax(i) - first, first / 128);
  }
}

TEST(Histogram, TheGreatestValueHasABucket) {
  Histogram histogram;
  histogram.Record(kMax64);
  histogram.Record(0);
  EXPECT_EQ(histogram.max(), kMax64);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.Percentile(100), kMax64);
  EXPECT_EQ(histogram.Percentile(50), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (std::uint64_t v = 1; v <= 100; ++v) histogram.Record(v);
  EXPECT_EQ(histogram.Percentile(0), 1u);
  EXPECT_EQ(histogram.Percentile(1), 1u);
  EXPECT_EQ(histogram.Percentile(50), 50u);
  EXPECT_EQ(histogram.Percentile(99), 99u);
  EXPECT_EQ(histogram.Percentile(99.5), 100u);
  EXPECT_EQ(histogram.Percentile(100), 100u);
  EXPECT_DOUBLE_EQ(histogram.Mean(), 50.5);
}

TEST(Histogram, AShareThatIsAWholeNumberOfRecordsIsNotRoundedUp) {
  Histogram histogram;
  histogram.RecordMany(1, 999);
  histogram.Record(200);
  EXPECT_EQ(histogram.Percentile(99.9), 1u);
  EXPECT_EQ(histogram.Percentile(99.91), 200u);
}

TEST(Histogram, PercentilesAreWithinOneIn128OfTheSortedValues) {
  SeededRandom random(testing::SeedFor("histogram"));
  Histogram histogram;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t value = random.Next64() >> random.Below(64);
    values.push_back(value);
    histogram.Record(value);
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {0.0, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const double share = std::ceil(percent / 100 * static_cast<double>(values.size()) - 1e-6);
    const auto rank = std::max<std::size_t>(static_cast<std::size_t>(share), 1);
    const std::uint64_t truth = values[rank - 1];
    const std::uint64_t given = histogram.Percentile(percent);
    EXPECT_GE(given, truth) << percent;
    EXPECT_LE(given - truth, truth / 128) << percent;
  }
}

TEST(Histogram, MergeEqualsRecordingEverythingInOne) {
  SeededRandom random(testing::SeedFor("merge"));
  Histogram parts[3];
  Histogram whole;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t value = random.Below(1'000'000);
    parts[i % 3].Record(value);
    whole.Record(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.max(), whole.max());
  EXPECT_DOUBLE_EQ(merged.Mean(), whole.Mean());
  for (std::uint64_t rank = 1; rank <= whole.count(); ++rank) {
    const double percent = 100.0 * static_cast<double>(rank) / static_cast<double>(whole.count());
    ASSERT_EQ(merged.Percentile(percent), whole.Percentile(percent)) << "rank=" << rank;
  }
}

TEST(Histogram, MergingAnEmptyOneChangesNothing) {
  Histogram histogram;
  histogram.Record(5);
  histogram.Merge(Histogram());
  EXPECT_EQ(histogram.min(), 5u);
  EXPECT_EQ(histogram.max(), 5u);
  EXPECT_EQ(histogram.count(), 1u);
}

TEST(Histogram, ResetForgetsEverything) {
  Histogram histogram;
  histogram.RecordMany(1000, 7);
  histogram.RecordMany(2000, 0);
  EXPECT_EQ(histogram.count(), 7u);
  EXPECT_EQ(histogram.max(), 1000u) << "zero records of 2000";
  histogram.Reset();
  EXPECT_EQ(histogram.count(), 0u);
  histogram.Record(3);
  EXPECT_EQ(histogram.min(), 3u);
  EXPECT_EQ(histogram.max(), 3u);
}

TEST(HistogramDeathTest, RefusesAPercentOutOfRange) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(Histogram().Percentile(100.5)), "percent=100.5");
}

}  // namespace
}  // namespace ring
