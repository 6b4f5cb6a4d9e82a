// The calculators of decode matrices that were used before are not made again.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ec_offload/verbs_exp/calc.h"

namespace ring::ec_verbs {
namespace {

// Two inputs, one output; the cache looks at how many and at the matrix, not at where they are.
Job JobOf(std::uint8_t first, std::uint8_t second) {
  Job job;
  job.inputs.resize(2);
  job.outputs.resize(1);
  job.matrix = {static_cast<char>(first), static_cast<char>(second)};
  return job;
}

TEST(CalculatorCache, AMatrixUsedBeforeHasItsCalculator) {
  CalculatorCache cache(8);
  const auto first = cache.Get(JobOf(2, 3));
  const auto second = cache.Get(JobOf(3, 2));
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(cache.Get(JobOf(2, 3)), first);
  EXPECT_EQ(cache.Get(JobOf(3, 2)), second);
}

TEST(CalculatorCache, TheMatrixUsedLongestAgoMakesRoom) {
  CalculatorCache cache(8);
  const auto kept = cache.Get(JobOf(1, 1));
  const std::weak_ptr<const rdma::Calculator> dropped = cache.Get(JobOf(1, 2));
  for (std::size_t i = 0; i < CalculatorCache::kCalculatorsKept - 1; ++i) {
    EXPECT_EQ(cache.Get(JobOf(1, 1)), kept);
    ASSERT_NE(cache.Get(JobOf(2, static_cast<std::uint8_t>(i + 1))), nullptr);
  }
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(cache.Get(JobOf(1, 1)), kept);
}

}  // namespace
}  // namespace ring::ec_verbs
