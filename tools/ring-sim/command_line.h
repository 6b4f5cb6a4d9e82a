// tools/ring-sim/command_line.h — what ring-sim is asked for.
//
// What:      CommandLine: a mode, and what was asked of it. ParseCommandLine refuses an option that
//            the mode would not look at.
// Threads:   one.
// Errors:    are printed; the exit status 2.
#ifndef RING_TOOLS_RING_SIM_COMMAND_LINE_H_
#define RING_TOOLS_RING_SIM_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/ring-sim/cluster_mode.h"
#include "tools/ring-sim/consensus_mode.h"
#include "tools/ring-sim/mutant_mode.h"

namespace ring::tools {

struct CommandLine {
  enum class Mode { kClusters, kEachWorkload, kConsensus, kMutants, kListFaults };
  Mode mode = Mode::kClusters;
  ClusterMode clusters;             // its faults are those of --workload, with --fault above them
  std::vector<std::string> faults;  // of --fault alone
  ConsensusMode consensus;
  MutantMode mutants;
  std::string mutant;  // on in clusters; empty: none
  std::string probed;  // off, and told where it would act; empty: none
};

// Gives the exit status, where there is nothing to run: that of --help, or of a wrong command line.
std::optional<int> ParseCommandLine(int argc, char** argv, CommandLine* out);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_COMMAND_LINE_H_
