// tools/ring-sim/mutant_mode.h — which bug switches are noticed, and by what: `ring-sim --mutants`.
//
// What:      with one switch of mutant_cases.h after the other on, runs whole clusters from seeds
//            until a checker or a broken invariant notices, and the switch's directed scenario, a
//            test that must pass without it and fail with it. Prints what noticed.
// Threads:   one; each switch has a process of its own, since it may end it.
// Errors:    the exit status is 1 when something is not as mutant_cases.h says, or a rule has
//            neither a switch nor a reason.
#ifndef RING_TOOLS_RING_SIM_MUTANT_MODE_H_
#define RING_TOOLS_RING_SIM_MUTANT_MODE_H_

#include <cstdint>
#include <string>

#include "tests/sim/fault_options.h"

namespace ring::tools {

struct MutantMode {
  std::uint64_t first = 1;     // seed
  std::uint64_t budget = 200;  // the last
  std::uint64_t operations = 1500;
  sim::FaultOptions faults;
  bool own_workloads = true;  // set over these what the switch's row says
  std::string only;           // one id, or two with '+' between them; empty: all
  bool clusters = true;
  bool survivors = false;  // in clusters those, too, that survived them before
  bool scenarios = true;
  std::string json;
  std::string table;  // a file for the table, as Markdown
};

int RunMutants(const MutantMode& mode);

// Turns a switch on, or two with '+' between them, for all that this process runs; or probes them:
// they are off, and faults come where they would act. False: the build has no switches, or none of
// this name, which is said.
bool TurnOn(const std::string& id, bool probes = false);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_MUTANT_MODE_H_
