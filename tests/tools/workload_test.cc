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

TEST(Value, OneOfAnotherKeyOrSizeIsNoticed) {
  std::string value(100, '.');
  FillValue(5, absl::MakeSpan(value));
  EXPECT_TRUE(CheckValue(5, 100, value));
  EXPECT_FALSE(CheckValue(6, 100, value));
  EXPECT_FALSE(CheckValue(5, 99, value));
}

}  // namespace
}  // namespace ring::bench
