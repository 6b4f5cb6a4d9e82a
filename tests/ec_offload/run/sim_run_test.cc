// Graphs of all schemes on the simulated fabric, with faults of F1, F7, F8 and F15 from seeds: a
// run ends by its deadline, bit-exact or with an error, and the next one works.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/ec_offload/run/sim_graph.h"

namespace ring::ec_offload {
namespace {

using rdma::sim::FaultClass;
using rdma::sim::FaultCounts;

constexpr std::uint64_t kSeeds = 400;

TEST(SimGraphs, F8F15EveryRunIsExactOrHasAnErrorByItsDeadlineAndTheNextOneWorks) {
  FaultCounts faults;
  std::uint64_t exact = 0, failed = 0, shown_wrong = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const SimGraphOutcome outcome = RunSimGraph(seed);
    EXPECT_EQ(outcome.complaint, "") << "seed=" << seed;
    faults.Add(outcome.faults);
    failed += outcome.status.ok() ? 0 : 1;
    shown_wrong += outcome.wrong_bytes ? 1 : 0;
    exact += outcome.status.ok() && !outcome.wrong_bytes ? 1 : 0;
  }
  // All of it happens.
  EXPECT_GT(exact, kSeeds / 10);
  EXPECT_GT(failed, kSeeds / 10);
  EXPECT_GT(shown_wrong, 0u);
  for (const FaultClass fault : {FaultClass::kF1Crash, FaultClass::kF7Message,
                                 FaultClass::kF8OneSided, FaultClass::kF15Calc})
    EXPECT_GT(faults.by_class[static_cast<std::size_t>(fault)], kSeeds / 10)
        << static_cast<int>(fault);
}

TEST(SimGraphs, OneSeedIsOneOutcome) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const SimGraphOutcome first = RunSimGraph(seed), second = RunSimGraph(seed);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << seed;
    EXPECT_EQ(first.status, second.status) << seed;
  }
}

// How many of the seeds notice a bug that is put in on purpose.
std::uint64_t Noticed(SimGraphBreak broken, std::uint64_t seeds) {
  std::uint64_t noticed = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    noticed += RunSimGraph(seed, broken).complaint.empty() ? 0 : 1;
  return noticed;
}

TEST(SimGraphs, AWrongByteThatNobodyTellsOfIsNoticed) {
  EXPECT_GT(Noticed(SimGraphBreak::kWrongByte, 20), 15u);
}

TEST(SimGraphs, ARunThatForgetsItsDeadlineIsNoticed) {
  EXPECT_GT(Noticed(SimGraphBreak::kNoDeadline, 60), 2u);
}

}  // namespace
}  // namespace ring::ec_offload
