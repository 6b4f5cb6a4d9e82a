// A bounded number of seeds of the simulation; `ring-sim --consensus` runs as many as one likes.
#include <array>

#include "gtest/gtest.h"
#include "tests/consensus/sim/world.h"

namespace ring::consensus::sim {
namespace {

TEST(ConsensusSim, NoSeedBreaksARule) {
  std::array<std::uint64_t, kFaultCount> faults{};
  std::uint64_t reads = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const Result result = RunSeed(seed);
    EXPECT_EQ(result.violation, "") << "seed=" << seed;
    EXPECT_GT(result.committed, 0u) << "seed=" << seed;
    reads += result.reads;
    for (std::size_t i = 0; i < kFaultCount; ++i) faults[i] += result.faults[i];
  }
  EXPECT_GT(reads, 0u);
  for (std::size_t i = 0; i < kFaultCount; ++i) {
    EXPECT_GT(faults[i], 0u) << NameOf(static_cast<Fault>(i)) << " never happened";
  }
}

TEST(ConsensusSim, ASeedReplaysExactly) {
  for (const std::uint64_t seed : {3, 17, 40}) {
    const Result first = RunSeed(seed);
    const Result second = RunSeed(seed);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(first.trace_hash, RunSeed(seed + 1).trace_hash);
  }
}

}  // namespace
}  // namespace ring::consensus::sim
