// Whole clusters from seeds: equal seeds give equal runs, and what clients are told is right.
#include "tests/sim/sim_run.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/sim/run_clean.h"
#include "tests/support/sanitized.h"

namespace ring::sim {
namespace {

// How many of so many seeds a test runs: with sanitizers each takes several times as long.
constexpr std::uint64_t Share(std::uint64_t seeds) {
  return testing::kSanitized ? (seeds + 3) / 4 : seeds;
}

RunResult RunClean(std::uint64_t seed, std::uint64_t operations, bool node_failures = false) {
  RunOptions options;
  options.seed = seed;
  options.operations = operations;
  options.faults.node_faults = node_failures ? 1 : 0;
  return RunClean(options);
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
  std::uint64_t lines = 0;
  std::uint64_t records = 0;
  for (std::uint64_t seed = 1001; seed < 1001 + Share(20); ++seed) {
    const RunResult result = RunClean(seed, 300);
    faults.Add(result.faults);
    answered += result.answered;
    rows += result.rows_scrubbed;
    lines += result.lines_compared;
    records += result.records_compared;
  }
  EXPECT_GT(answered, Share(4000));
  EXPECT_GT(rows, Share(100));
  EXPECT_GT(lines, Share(100));
  EXPECT_GT(records, Share(100));
  if (testing::kSanitized) return;  // what so few seeds meet is luck
  for (const int number : {1, 5, 6, 7, 8, 9, 11, 12})
    EXPECT_GT(faults.by_class[static_cast<std::size_t>(number)], 0u) << "F" << number;
}

TEST(SimRun, NodesAreLostAndNothingThatWasAcknowledged) {
  rdma::sim::FaultCounts faults;
  std::uint64_t answered = 0;
  RunOptions options;
  options.operations = 300;
  options.faults.node_faults = 1;
  const std::uint64_t usual = options.faults.f13_one_in;
  for (options.seed = 2001; options.seed < 2001 + Share(60); ++options.seed) {
    // Few partitions are of all nodes, and few runs have partitions of nodes: often in some.
    options.faults.f13_one_in = options.seed % 5 == 0 ? 1 : usual;
    const RunResult result = RunClean(options);
    faults.Add(result.faults);
    answered += result.answered;
  }
  EXPECT_GT(answered, Share(3000));
  if (testing::kSanitized) return;  // what so few seeds meet is luck
  for (const int number : {1, 2, 3, 4, 6, 13, 14})
    EXPECT_GT(faults.by_class[static_cast<std::size_t>(number)], 0u) << "F" << number;
}

// What is still to come when the time is over is no success.
TEST(SimRun, E6ARunThatDoesNotEndProtectedIsAViolation) {
  int found = 0;
  RunOptions options;
  options.operations = 300;
  options.protect_ns = 1;
  options.faults.slow_recovery_one_in = 1;
  // About one run of four loses a node so late.
  for (options.seed = 2001; found == 0 && options.seed <= 2040; ++options.seed) {
    for (const Violation& violation : RunSeed(options).violations) {
      found += violation.kind == "liveness" &&
               violation.detail.find("not protected again") != std::string::npos &&
               violation.detail.find("role ") != std::string::npos;
    }
  }
  EXPECT_GT(found, 0);
}

// Values at coordinators, copies at replicas, parity rows, and log entries on their way: what is
// answered is right or DATA_LOST, and the scrub at the end finds what is left.
TEST(SimRun, F10BitsTurnEverywhereAndNobodyIsToldOfThem) {
  RunOptions options;
  options.operations = 300;
  options.faults.f10_value_run_one_in = 1;
  options.faults.f10_copy_run_one_in = 1;
  options.faults.f10_row_run_one_in = 1;
  options.faults.f10_flight_run_one_in = 1;
  options.faults.f10_flight_max_ppm = 10'000;
  rdma::sim::FaultCounts faults;
  std::uint64_t found = 0;
  for (options.seed = 5001; options.seed < 5001 + Share(12); ++options.seed) {
    options.faults.node_faults = options.seed % 2;  // entries: only where no node is lost
    const RunResult run = RunClean(options);
    faults.Add(run.faults);
    found += run.damage_found;
  }
  if (testing::kSanitized) return;  // what so few seeds meet is luck
  for (const char* kind : {"F10 values", "F10 copies", "F10 parity rows", "F10 in flight"})
    EXPECT_GT(faults.by_kind[kind], 0u) << kind;
  EXPECT_GT(found, 0u);
}

TEST(SimRun, F8F11F12ConnectionsBreakAndOperatorsAddAndDeleteByForce) {
  RunOptions options;
  options.operations = 600;
  options.faults.f12_force_run_one_in = 1;
  options.faults.f12_force_mean_ns = 5 * FaultOptions::kMs;
  options.faults.f12_catalogue_mean_ns = 4 * FaultOptions::kMs;  // what is deleted was made
  options.faults.f8_log_break_mean_ns = 50 * FaultOptions::kMs;
  options.faults.f8_control_break_mean_ns = 50 * FaultOptions::kMs;
  options.faults.f12_add_run_one_in = 1;
  rdma::sim::FaultCounts faults;
  for (options.seed = 6001; options.seed < 6001 + Share(12); ++options.seed)
    faults.Add(RunClean(options).faults);
  if (testing::kSanitized) return;  // what so few seeds meet is luck
  for (const char* kind : {"F8 log connections", "F8 control connections", "F11 queue pairs",
                           "F12 forced deletes", "F12 nodes added"})
    EXPECT_GT(faults.by_kind[kind], 0u) << kind;
}

TEST(SimRun, L1NodesAreLostUnderChecksAndNothingThatWasAcknowledged) {
  std::uint64_t answered = 0;
  RunOptions options;
  options.operations = 300;
  options.faults.check_one_in = 1;
  for (options.seed = 3001; options.seed < 3001 + Share(8); ++options.seed)
    answered += RunClean(options).answered;
  EXPECT_GT(answered, Share(1000));
}

TEST(SimRun, F15DevicesCalculateDeltasAndFailAreWrongAndLate) {
  RunOptions options;
  options.operations = 300;
  options.faults.f15_nic_run_one_in = 1;
  std::uint64_t calculated = 0;
  std::uint64_t redone = 0;
  std::uint64_t injected = 0;
  for (options.seed = 4001; options.seed < 4001 + Share(8); ++options.seed) {
    const RunResult run = RunClean(options);
    calculated += run.nic_deltas;
    redone += run.nic_redone;
    injected += run.faults.by_class[15];
  }
  if (testing::kSanitized) return;  // what so few seeds meet is luck
  EXPECT_GT(calculated, 0u);
  EXPECT_GT(redone, 0u);
  EXPECT_GT(injected, 0u);
}

TEST(SimRun, S2V6DegradedReadsAreReadsWhateverBefallsNodes) {
  RunOptions options;
  options.operations = 300;
  options.faults.degraded_run_one_in = 1;
  options.faults.degraded_one_in = 2;
  // Bits that turn in other blocks of a row are no liveness of this one's.
  options.faults.f10_value_run_one_in = options.faults.f10_row_run_one_in = 0;
  std::uint64_t decoded = 0;
  for (options.seed = 9001; options.seed < 9001 + Share(16); ++options.seed)
    decoded += RunClean(options).degraded_gets;
  if (testing::kSanitized) return;  // what so few seeds meet is luck
  EXPECT_GT(decoded, 100u);
}

TEST(SimRun, EqualSeedsGiveEqualHashesWhenNodesAreLost) {
  for (const std::uint64_t seed : {2001u, 2002u}) {
    const RunResult first = RunClean(seed, 300, /*node_failures=*/true);
    EXPECT_EQ(first.trace_hash, RunClean(seed, 300, /*node_failures=*/true).trace_hash)
        << "seed=" << seed;
  }
}

}  // namespace
}  // namespace ring::sim
