// The distributions that ring-bench draws keys from.
#include "tools/ring-bench/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace ring::bench {
namespace {

constexpr std::size_t kKeys = 1000;
constexpr int kDraws = 200'000;

// How often each key was drawn, most often first, as shares of all draws.
std::vector<double> Shares(Distribution distribution) {
  std::vector<double> shares(kKeys);
  KeyChooser chooser(distribution, kKeys, 7);
  for (int i = 0; i < kDraws; ++i) shares.at(chooser.Next()) += 1.0 / kDraws;
  std::sort(shares.rbegin(), shares.rend());
  return shares;
}

TEST(KeyChooser, UniformDrawsAllKeysAlike) {
  const std::vector<double> shares = Shares(Distribution::kUniform);
  EXPECT_LT(shares.front(), 1.5 / kKeys);
  EXPECT_GT(shares.back(), 0.5 / kKeys);
}

// The n-th most popular key has 1 / (n^0.99 zeta) of the draws. Scattering lets two ranks share a
// key now and then, so the shares of the first ones are bounds from below.
TEST(KeyChooser, ZipfianPrefersFewKeys) {
  double zeta = 0;
  for (std::size_t n = 1; n <= kKeys; ++n) zeta += std::pow(n, -0.99);
  const std::vector<double> shares = Shares(Distribution::kZipfian);
  EXPECT_GT(shares[0], 0.95 / zeta);
  EXPECT_LT(shares[0], 1.3 / zeta);
  EXPECT_GT(shares[1], 0.9 * std::pow(2, -0.99) / zeta);
  // Half of the draws are of a few keys: 20 to 45 of 1,000 by the sum.
  double sum = 0;
  std::size_t keys = 0;
  while (sum < 0.5) sum += shares.at(keys++);
  EXPECT_GT(keys, 10u);
  EXPECT_LT(keys, 60u);
}

TEST(DegradedArrivals, TheShareOfTheReadsComesOut) {
  for (const double share : {0.001, 0.01, 0.2, 0.7}) {
    for (const double shape : {0.7, 0.75, 0.8, 2.0}) {
      DegradedArrivals arrivals({.share = share, .shape = shape}, 7);
      int degraded = 0;
      const int reads = static_cast<int>(20'000 / share);
      for (int i = 0; i < reads; ++i) degraded += arrivals.Next() ? 1 : 0;
      EXPECT_NEAR(degraded, 20'000, 600) << share << " " << shape;
    }
  }
}

// Of the gaps of a Weibull distribution, 1 - 1/e are below its scale, whatever its shape.
TEST(DegradedArrivals, GapsHaveAWeibullDistribution) {
  for (const double shape : {0.7, 0.8}) {
    DegradedArrivals arrivals({.share = 0.01, .shape = shape, .scale = 1000}, 3);
    int below = 0, below_tenth = 0, count = 0;
    for (int gap = 1; count < 5'000; ++gap) {
      if (!arrivals.Next()) continue;
      ++count;
      below += gap <= 1000 ? 1 : 0;
      below_tenth += gap <= 100 ? 1 : 0;
      gap = 0;
    }
    EXPECT_NEAR(below / 5e3, 1 - std::exp(-1), 0.03);
    EXPECT_NEAR(below_tenth / 5e3, 1 - std::exp(-std::pow(0.1, shape)), 0.03);
  }
}

TEST(DegradedArrivals, AllOrNone) {
  DegradedArrivals all({.share = 1}, 1), none({}, 1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(all.Next());
    EXPECT_FALSE(none.Next());
  }
}

TEST(Value, OneOfAnotherKeyOrSizeIsNoticed) {
  std::string value(100, '.');
  FillValue(5, absl::MakeSpan(value));
  EXPECT_TRUE(CheckValue(5, 100, value));
  EXPECT_FALSE(CheckValue(6, 100, value));
  EXPECT_FALSE(CheckValue(5, 99, value));
}

}  // namespace
}  // namespace ring::bench
