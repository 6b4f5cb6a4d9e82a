// tests/sim/checkers/durability_checker.h — what was acknowledged is there in the end.
//
// What:      CheckDurability looks at the last reads of a run, when all is well again: each key
//            has a version no older than the newest one that its writers were told is in a memgest
//            with f >= 1, and is not missing unless a delete may stand above it (I2), or it was
//            given up (E8).
// Shape:     of the whole history only the newest acknowledgement of each key counts: a second
//            opinion to the version checker's floors, which it keeps as the run goes on.
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations.
// Source:    rules I2, G6, E8; docs/GLOSSARY.md (f).
#ifndef RING_TESTS_SIM_CHECKERS_DURABILITY_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_DURABILITY_CHECKER_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

// first_read: from here on there are only reads. may_have_lost: keys that lost what was in memgests
// of f = 0, with what a move to one let go of (G6).
std::vector<Violation> CheckDurability(const History& history, std::size_t first_read,
                                       const std::function<bool(int key)>& may_have_lost);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_DURABILITY_CHECKER_H_
