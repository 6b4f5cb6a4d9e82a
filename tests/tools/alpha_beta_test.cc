// What follows the model is found again; what does not decides no more than its share.
#include "tools/ring-bench/alpha_beta.h"

#include <gtest/gtest.h>

#include <vector>

namespace ring::bench {
namespace {

TEST(AlphaBeta, FindsTheLineThatPointsWereTakenFrom) {
  std::vector<SizeAndTime> points;
  for (double size = 128; size <= 16 << 20; size *= 2) points.push_back({size, 0.25 * size + 30e3});
  const AlphaBeta fit = FitAlphaBeta(points);
  EXPECT_NEAR(fit.alpha, 0.25, 1e-9);
  EXPECT_NEAR(fit.beta, 30e3, 1e-3);
  EXPECT_NEAR(fit.worst_error, 0, 1e-9);
}

TEST(AlphaBeta, LargeTimesDoNotDecideAlone) {
  // The largest one is off by a fifth, which is more than all of the small ones together.
  std::vector<SizeAndTime> points;
  for (double size = 128; size <= 16 << 20; size *= 2) points.push_back({size, 0.25 * size + 30e3});
  points.back().time_ns *= 1.2;
  const AlphaBeta fit = FitAlphaBeta(points);
  EXPECT_NEAR(fit.beta, 30e3, 1e3);
  EXPECT_LT(fit.worst_error, 0.2);
}

}  // namespace
}  // namespace ring::bench
