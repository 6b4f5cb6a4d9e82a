// tests/ec_offload/run/sim_graph.h — one run of a scheme's graph on the simulated fabric, with
// faults, from one seed.
//
// What:      RunSimGraph draws scheme, code, losses, way and faults of F1, F7, F8 and F15 from the
//            seed, runs the graph, and says what was wrong with how it ended; then all faults end,
//            and the same nodes (those that crashed: new ones) run it again.
// Shape:     right is: every node is done by its deadline; either all are OK and every byte is
//            right, or somebody has an error that names a vertex. What a calculation of F15 that
//            is wrong in silence did has to be in the bytes, where their checksum shows it. The
//            second run is OK, and right.
// Units:     nanoseconds of simulated time.
// Threads:   one.
// Errors:    SimGraphOutcome::complaint; empty: all was right.
#ifndef RING_TESTS_EC_OFFLOAD_RUN_SIM_GRAPH_H_
#define RING_TESTS_EC_OFFLOAD_RUN_SIM_GRAPH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rdma/sim/sim_options.h"

namespace ring::ec_offload {

// What a NodeRun that has a bug would do.
enum class SimGraphBreak { kNone, kWrongByte, kNoDeadline };

struct SimGraphOutcome {
  std::string what;          // "PPR(6,3) ..."
  std::string complaint;     // of the checker
  absl::Status status;       // of the first run: the first error, by node
  bool wrong_bytes = false;  // though it was OK: a wrong calculation's
  std::uint64_t trace_hash = 0;
  rdma::sim::FaultCounts faults;
};

SimGraphOutcome RunSimGraph(std::uint64_t seed, SimGraphBreak broken = SimGraphBreak::kNone);

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_RUN_SIM_GRAPH_H_
