// tests/sim/sim_run.h — one seed: a cluster, a workload, faults, and everything that is checked.
//
// What:      RunSeed. The seed decides everything: which faults are on, when they come, what
//            clients ask for.
// Threads:   one; the log sink of the process is taken meanwhile.
// Errors:    what is wrong is a Violation of the result; a broken invariant ends the process.
#ifndef RING_TESTS_SIM_SIM_RUN_H_
#define RING_TESTS_SIM_SIM_RUN_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "rdma/sim/sim_options.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/history.h"

namespace ring::sim {

struct RunOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 1500;  // of all clients together
  FaultOptions faults;
  std::uint64_t protect_ns = 60'000'000'000;  // after the faults, until all is protected again
  bool logs = false;                          // the story has what nodes log, too
  std::FILE* trace_file = nullptr;            // every event, as a line
  std::FILE* history_file = nullptr;          // what clients were told, as JSON lines
  std::FILE* losses_file = nullptr;           // what may be forgotten of it (G6, F3), as JSON lines
};

struct RunResult {
  std::uint64_t seed = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t sim_ns = 0;
  std::uint64_t events = 0;
  std::uint64_t turns = 0;
  std::uint64_t operations = 0;
  std::uint64_t answered = 0;  // ok, not_found
  std::uint64_t failed = 0;    // certainly not applied
  std::uint64_t unknown = 0;
  std::uint64_t search_keys = 0;
  std::uint64_t search_given_up = 0;
  std::uint64_t scrubs = 0;  // of a whole cluster, at the end
  std::uint64_t values_scrubbed = 0;
  std::uint64_t rows_scrubbed = 0;
  std::uint64_t damage_left = 0;       // values and copies with a bit that turned, at the end (F10)
  std::uint64_t damage_found = 0;      // mismatches that the scrub found in such runs
  std::uint64_t lines_compared = 0;    // of a member with its coordinator's, at the end
  std::uint64_t records_compared = 0;  // ... completion records
  std::uint64_t versions_kept = 0;     // below a weaker newest one, and looked for (G1)
  std::uint64_t nic_deltas = 0;        // puts whose deltas a device calculated, at nodes still up
  std::uint64_t nic_redone = 0;        // ... or failed to
  std::uint64_t degraded_gets = 0;     // answered with decoded bytes, as nodes still up count
  rdma::sim::FaultCounts faults;
  bool overran = false;  // more was lost than memgests survive (F3)
  bool damaged = false;  // bits turned in values, copies or rows (F10)
  std::vector<Violation> violations;
  std::vector<std::string> story;  // what befell the nodes
};

RunResult RunSeed(const RunOptions& options);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_RUN_H_
