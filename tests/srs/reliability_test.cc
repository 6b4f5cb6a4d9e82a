#include "srs/reliability.h"

#include "gtest/gtest.h"

namespace ring::srs {
namespace {

TEST(Reliability, Srs214SurvivesTwoFifthsOfDoubleLosses) {
  const auto counts = CountPatterns({2, 1, 4});
  ASSERT_TRUE(counts.ok());
  ASSERT_EQ(counts->size(), 6U);
  EXPECT_EQ((*counts)[0].survivable, 1U);
  EXPECT_EQ((*counts)[1].survivable, 5U);
  EXPECT_EQ((*counts)[2].survivable, 4U);
  EXPECT_EQ((*counts)[2].total, 10U);
  EXPECT_DOUBLE_EQ((*counts)[2].fraction(), 0.4);
  EXPECT_EQ((*counts)[3].survivable, 0U);
}

TEST(Reliability, EveryPatternUpToMIsSurvivable) {
  for (std::uint32_t s = 2; s <= 7; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      for (std::uint32_t m = 1; m <= 4; ++m) {
        const SrsParameters parameters{k, m, s};
        const auto counts = CountPatterns(parameters);
        ASSERT_TRUE(counts.ok());
        for (std::uint32_t n = 0; n <= m; ++n) {
          EXPECT_EQ((*counts)[n].survivable, (*counts)[n].total)
              << ToString(parameters) << " losses=" << n;
        }
        EXPECT_LT((*counts)[m + 1].survivable, (*counts)[m + 1].total);
        EXPECT_EQ((*counts)[s + m].survivable, 0U);
      }
    }
  }
}

TEST(Reliability, PlainReedSolomonSurvivesNothingBeyondM) {
  const auto counts = CountPatterns({3, 2, 3});
  ASSERT_TRUE(counts.ok());
  for (std::size_t n = 3; n < counts->size(); ++n) EXPECT_EQ((*counts)[n].survivable, 0U);
}

TEST(Reliability, RefusesBadParameters) { EXPECT_FALSE(CountPatterns({4, 1, 3}).ok()); }

}  // namespace
}  // namespace ring::srs
