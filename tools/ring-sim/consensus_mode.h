// tools/ring-sim/consensus_mode.h — the consensus alone: `ring-sim --consensus --seeds A..B`.
//
// What:      runs seeds one after the other and prints what was simulated and what was found.
// Threads:   one.
// Errors:    the exit status is 1 when anything was violated, 2 when a file cannot be written.
#ifndef RING_TOOLS_RING_SIM_CONSENSUS_MODE_H_
#define RING_TOOLS_RING_SIM_CONSENSUS_MODE_H_

#include <cstdint>
#include <string>

namespace ring::tools {

struct ConsensusMode {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  std::string json;   // file, or empty
  std::string trace;  // of the first seed
};

int RunConsensus(const ConsensusMode& mode);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_CONSENSUS_MODE_H_
