// tests/sim/checkers/scrub_checker.h — copies, parities and values agree when all is quiet.
//
// What:      CheckScrub scrubs the whole cluster: nothing may differ. Where bits were turned on
//            purpose (F10), what is left of that must be found, and nothing elsewhere.
// Shape:     in each run but those that lost too much (F3). REQUIRES: protected again.
// Ownership: borrows the cluster, and lets its time pass.
// Threads:   one.
// Errors:    Violations.
// Source:    rules S2, S12.
#ifndef RING_TESTS_SIM_CHECKERS_SCRUB_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_SCRUB_CHECKER_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

struct ScrubResult {
  bool compared = false;  // else: too much was lost
  // A member found only now that an entry had come damaged: it joins anew, and may be asked again.
  bool refused = false;
  std::uint64_t values = 0;
  std::uint64_t rows = 0;
  std::uint64_t damage_left = 0;   // values and copies with a bit that turned
  std::uint64_t damage_found = 0;  // mismatches, where bits were turned
  std::vector<Violation> violations;
};

// id: of no scrub before. earlier_ended: whether everyone heard that those under load are over.
ScrubResult CheckScrub(SimCluster* cluster, std::uint64_t id,
                       absl::FunctionRef<bool()> earlier_ended);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_SCRUB_CHECKER_H_
