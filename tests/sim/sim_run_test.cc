// Whole clusters from seeds: equal seeds give equal runs, and what clients are told is right.
#include "tests/sim/sim_run.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace ring::sim {
namespace {

RunResult RunClean(std::uint64_t seed, std::uint64_t operations, bool node_failures = false) {
  RunOptions options;
  options.seed = seed;
  options.operations = operations;
  options.node_failures = node_failures;
  RunResult result = RunSeed(options);
  for (const Violation& violation : result.violations)
    ADD_FAILURE() << "seed=" << seed << " " << violation.kind << ": " << violation.detail;
  return result;
}

TEST(SimRun, EqualSeedsGiveEqualHashes) {
  for (const std::uint64_t seed : {3u, 14u, 15u, 92u}) {
    const RunResult first = RunClean(seed, 300);
    const RunResult second = RunClean(seed, 300);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed=" << seed;
    EXPECT_EQ(first.events, second.events) << "seed=" << seed;
    EXPECT_NE(first.trace_hash, RunClean(seed + 1, 300).trace_hash);
  }
}

TEST(SimRun, SeedsHoldAllRulesAndInjectMostFaults) {
  rdma::sim::FaultCounts faults;
  std::uint64_t answered = 0;
  std::uint64_t rows = 0;
  for (std::uint64_t seed = 1001; seed <= 1020; ++seed) {
    const RunResult result = RunClean(seed, 300);
    faults.Add(result.faults);
    answered += result.answered;
    rows += result.rows_scrubbed;
  }
  EXPECT_GT(answered, 4000u);
  EXPECT_GT(rows, 100u);
  for (const int number : {1, 5, 6, 7, 8, 9, 11, 12})
    EXPECT_GT(faults.by_class[static_cast<std::size_t>(number)], 0u) << "F" << number;
}

TEST(SimRun, NodesAreLostAndNothingThatWasAcknowledged) {
  rdma::sim::FaultCounts faults;
  std::uint64_t answered = 0;
  for (std::uint64_t seed = 2001; seed <= 2024; ++seed) {
    const RunResult result = RunClean(seed, 300, /*node_failures=*/true);
    faults.Add(result.faults);
    answered += result.answered;
  }
  EXPECT_GT(answered, 3000u);
  for (const int number : {1, 2, 3, 4, 6, 13})
    EXPECT_GT(faults.by_class[static_cast<std::size_t>(number)], 0u) << "F" << number;
}

TEST(SimRun, EqualSeedsGiveEqualHashesWhenNodesAreLost) {
  for (const std::uint64_t seed : {2001u, 2002u}) {
    const RunResult first = RunClean(seed, 300, /*node_failures=*/true);
    EXPECT_EQ(first.trace_hash, RunClean(seed, 300, /*node_failures=*/true).trace_hash)
        << "seed=" << seed;
  }
}

// Each line: a seed that once found something, "nodes" if nodes were lost, and what.
TEST(SimRun, SeedsThatOnceFoundSomethingHold) {
  std::ifstream file(RING_SIM_REGRESSIONS);
  ASSERT_TRUE(file.is_open());
  std::string line;
  int count = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    RunClean(std::stoull(line), 1500, line.find(" nodes ") != std::string::npos);
    ++count;
  }
  RecordProperty("seeds", count);
}

}  // namespace
}  // namespace ring::sim
