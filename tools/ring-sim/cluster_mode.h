// tools/ring-sim/cluster_mode.h — whole clusters: `ring-sim --seeds A..B`.
//
// What:      runs seeds one after the other and prints what was simulated and what was found.
// Threads:   one.
// Errors:    the exit status is 1 when anything was violated, 2 when a file cannot be written.
#ifndef RING_TOOLS_RING_SIM_CLUSTER_MODE_H_
#define RING_TOOLS_RING_SIM_CLUSTER_MODE_H_

#include <cstdint>
#include <string>

#include "tests/sim/sim_run.h"

namespace ring::tools {

struct ClusterMode {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  sim::RunOptions run;  // of each seed; its files and the seed are set here
  bool verbose = false;
  std::string json;     // file, or empty
  std::string history;  // the same; of several seeds one each, with the seed in its name
  bool trace = false;   // every event of the first seed, on the standard output
};

int RunClusters(const ClusterMode& mode);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_CLUSTER_MODE_H_
