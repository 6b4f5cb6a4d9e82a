// tests/sim/checkers/resurrection_checker.h — what was replaced does not come back.
//
// What:      CheckResurrection: no value is read again after it had certainly been replaced or
//            deleted, told by real time alone: of versions only their epochs count, and those only
//            where the history says that something was lost. What vanished by a loss (G6, E8)
//            replaces nothing from then on.
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations.
#ifndef RING_TESTS_SIM_CHECKERS_RESURRECTION_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_RESURRECTION_CHECKER_H_

#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

std::vector<Violation> CheckResurrection(const History& history);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_RESURRECTION_CHECKER_H_
