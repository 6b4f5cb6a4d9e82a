// tools/ring-sim/mutant_mode.h — which bug switches the simulation notices: `ring-sim --mutants`.
//
// What:      runs seeds with one switch of ring/base/mutant.h after the other on, until a checker
//            or a broken invariant notices, and prints which seed did.
// Threads:   one; each switch has a process of its own, since it may end it.
// Errors:    the exit status is 1 when a switch survives that should be killed, or the other way
//            round.
#ifndef RING_TOOLS_RING_SIM_MUTANT_MODE_H_
#define RING_TOOLS_RING_SIM_MUTANT_MODE_H_

#include <cstdint>
#include <string>

namespace ring::tools {

struct MutantMode {
  std::uint64_t budget = 200;  // seeds
  std::uint64_t operations = 1500;
  std::string only;  // one id; empty: all
  std::string json;
};

int RunMutants(const MutantMode& mode);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_MUTANT_MODE_H_
