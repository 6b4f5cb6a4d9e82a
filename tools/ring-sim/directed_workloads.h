// tools/ring-sim/directed_workloads.h — workloads that bring about what hardly happens otherwise.
//
// What:      DirectedWorkloads() lists settings of FaultOptions, each for one kind of situation
//            that most seeds never come to. `ring-sim --workload NAME` runs seeds under one; bug
//            switches that need such a situation name theirs (mutant_cases.h).
// Shape:     settings are those of sim::SetFaults; on top of the defaults of FaultOptions.
// Threads:   any.
// Errors:    Apply: INVALID_ARGUMENT names the setting.
// Source:    Groce and others: Swarm testing (2012).
#ifndef RING_TOOLS_RING_SIM_DIRECTED_WORKLOADS_H_
#define RING_TOOLS_RING_SIM_DIRECTED_WORKLOADS_H_

#include <array>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tests/sim/fault_options.h"

namespace ring::tools {

struct DirectedWorkload {
  const char* name;
  const char* what;                     // becomes common
  std::array<const char*, 3> settings;  // null: none
};

absl::Span<const DirectedWorkload> DirectedWorkloads();
// null: there is none of this name.
const DirectedWorkload* FindDirectedWorkload(absl::string_view name);
absl::Status Apply(const DirectedWorkload& workload, sim::FaultOptions* faults);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_DIRECTED_WORKLOADS_H_
