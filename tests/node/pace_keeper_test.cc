#include "ring/node/pace_keeper.h"

#include <gtest/gtest.h>

namespace ring::node {
namespace {

constexpr std::uint64_t kBeginNs = 5'000'000'000;

// Looks `count` times; the thread waits for wait_ns before each.
double LookOften(PaceKeeper& keeper, int count, std::uint64_t wait_ns, std::uint64_t* now_ns,
                 std::uint64_t* waited_ns) {
  double share = 0;
  for (int i = 0; i < count; ++i) {
    *now_ns += PaceKeeper::kLookNs;
    *waited_ns += wait_ns;
    share = keeper.Look(*now_ns, *waited_ns);
  }
  return share;
}

TEST(PaceKeeper, WhoHasAProcessorGoesAsFastAsConfigured) {
  PaceKeeper keeper;
  std::uint64_t now_ns = kBeginNs, waited_ns = 123;
  EXPECT_EQ(LookOften(keeper, 100, PaceKeeper::kLookNs / 50, &now_ns, &waited_ns), 1);
}

TEST(PaceKeeper, SlowsDownWhileOthersWantTheProcessorAndRecoversBehindThem) {
  PaceKeeper keeper;
  std::uint64_t now_ns = kBeginNs, waited_ns = 0;
  LookOften(keeper, 1, 0, &now_ns, &waited_ns);
  const double soon = LookOften(keeper, 4, PaceKeeper::kLookNs / 2, &now_ns, &waited_ns);
  EXPECT_LT(soon, 0.5);
  EXPECT_EQ(LookOften(keeper, 100, PaceKeeper::kLookNs / 2, &now_ns, &waited_ns),
            PaceKeeper::kLeastShare);
  EXPECT_EQ(LookOften(keeper, 100, 0, &now_ns, &waited_ns), 1);
}

TEST(PaceKeeper, ForgetsWhatItMeasuredBeforeThePause) {
  PaceKeeper keeper;
  std::uint64_t now_ns = kBeginNs, waited_ns = 0;
  LookOften(keeper, 100, PaceKeeper::kLookNs / 2, &now_ns, &waited_ns);
  now_ns += 10'000'000'000;
  EXPECT_EQ(keeper.Look(now_ns, waited_ns), 1);
  // But who got no processor in all that time measured something.
  now_ns += 10'000'000'000;
  waited_ns += 9'000'000'000;
  EXPECT_LT(keeper.Look(now_ns, waited_ns), 1);
}

TEST(PaceKeeper, LooksNoMoreOftenThanThatIsWorth) {
  PaceKeeper keeper;
  keeper.Look(kBeginNs, 0);
  EXPECT_FALSE(keeper.Due(kBeginNs + PaceKeeper::kLookNs - 1));
  EXPECT_TRUE(keeper.Due(kBeginNs + PaceKeeper::kLookNs));
}

}  // namespace
}  // namespace ring::node
