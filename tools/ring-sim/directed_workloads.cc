#include "tools/ring-sim/directed_workloads.h"

#include <algorithm>

namespace ring::tools {
namespace {

constexpr DirectedWorkload kWorkloads[] = {
    {"aside", "nodes that others replace while some clients reach nobody else",
     "f5_zombie_run_one_in=1 f6_aside_one_in=1 check_one_in=0 node_faults_off_one_in=0 "
     "f5_zombie_min_ns=600000000 f3_run_one_in=0 f1_at_event_run_one_in=0"},
};

}  // namespace

absl::Span<const DirectedWorkload> DirectedWorkloads() { return kWorkloads; }

const DirectedWorkload* FindDirectedWorkload(absl::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kWorkloads), std::end(kWorkloads),
                   [name](const DirectedWorkload& one) { return one.name == name; });
  return found == std::end(kWorkloads) ? nullptr : found;
}

}  // namespace ring::tools
