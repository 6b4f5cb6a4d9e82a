// ring-sim: clusters in one thread, on virtual time, from seeds.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "ring/base/check.h"
#include "tools/ring-sim/command_line.h"
#include "tools/ring-sim/directed_workloads.h"

namespace ring::tools {
namespace {

// The exit status is the worst.
int RunEachWorkload(const CommandLine& line) {
  int worst = 0;
  for (const DirectedWorkload& workload : DirectedWorkloads()) {
    ClusterMode one = line.clusters;
    one.run.faults = {};
    RING_CHECK(Apply(workload, &one.run.faults).ok()) << workload.name;
    for (const std::string& fault : line.faults)
      RING_CHECK(sim::SetFaults(fault, &one.run.faults).ok()) << fault;
    std::printf("workload %s: %s\n", workload.name, workload.what);
    worst = std::max(worst, RunClusters(one));
  }
  return worst;
}

int ListFaults(const sim::FaultOptions& faults) {
  for (const sim::FaultField& field : sim::FaultFields()) {
    std::printf("%.*s=%llu\n", static_cast<int>(field.name.size()), field.name.data(),
                static_cast<unsigned long long>(faults.*field.value));
  }
  return 0;
}

int Main(int argc, char** argv) {
  CommandLine line;
  if (const std::optional<int> status = ParseCommandLine(argc, argv, &line); status.has_value())
    return *status;
  switch (line.mode) {
    case CommandLine::Mode::kListFaults:
      return ListFaults(line.clusters.run.faults);
    case CommandLine::Mode::kMutants:
      return RunMutants(line.mutants);
    case CommandLine::Mode::kConsensus:
      return RunConsensus(line.consensus);
    case CommandLine::Mode::kEachWorkload:
    case CommandLine::Mode::kClusters:
      break;
  }
  if (!line.mutant.empty() && !TurnOn(line.mutant)) return 2;
  if (!line.probed.empty() && !TurnOn(line.probed, /*probes=*/true)) return 2;
  return line.mode == CommandLine::Mode::kClusters ? RunClusters(line.clusters)
                                                   : RunEachWorkload(line);
}

}  // namespace
}  // namespace ring::tools

int main(int argc, char** argv) { return ring::tools::Main(argc, argv); }
