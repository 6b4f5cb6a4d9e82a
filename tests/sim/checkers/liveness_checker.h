// tests/sim/checkers/liveness_checker.h — once faults have stopped, every operation ended.
//
// What:      CheckLiveness.
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations.
#ifndef RING_TESTS_SIM_CHECKERS_LIVENESS_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_LIVENESS_CHECKER_H_

#include <functional>
#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

// crashed: a process that is no more ends nothing.
std::vector<Violation> CheckLiveness(const History& history,
                                     const std::function<bool(int process)>& crashed);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_LIVENESS_CHECKER_H_
