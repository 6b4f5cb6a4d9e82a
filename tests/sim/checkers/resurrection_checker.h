// tests/sim/checkers/resurrection_checker.h — what was replaced does not come back.
//
// What:      CheckResurrection: no value is read again after it had certainly been replaced or
//            deleted, told by real time alone, without versions.
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations.
#ifndef RING_TESTS_SIM_CHECKERS_RESURRECTION_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_RESURRECTION_CHECKER_H_

#include <functional>
#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

// may_have_lost: keys whose unreliable versions may have vanished (G6): those replaced nothing.
std::vector<Violation> CheckResurrection(const History& history,
                                         const std::function<bool(int key)>& may_have_lost);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_RESURRECTION_CHECKER_H_
