// tests/sim/run_clean.h — a run of a seed that has to find nothing.
//
// What:      RunClean runs it, fails the test with each violation, and if nothing was scrubbed
//            though not too much was lost (S12).
// Shape:     as RunSeed.
// Threads:   one.
// Errors:    failures of the test.
#ifndef RING_TESTS_SIM_RUN_CLEAN_H_
#define RING_TESTS_SIM_RUN_CLEAN_H_

#include "gtest/gtest.h"
#include "tests/sim/sim_run.h"

namespace ring::sim {

inline RunResult RunClean(const RunOptions& options) {
  RunResult result = RunSeed(options);
  for (const Violation& violation : result.violations)
    ADD_FAILURE() << "seed=" << options.seed << " " << violation.kind << ": " << violation.detail;
  EXPECT_EQ(result.scrubs, result.overran ? 0u : 1u) << "seed=" << options.seed;
  return result;
}

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_RUN_CLEAN_H_
