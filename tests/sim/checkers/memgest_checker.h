// tests/sim/checkers/memgest_checker.h — where versions are, as the answers tell it.
//
// What:      a move to where the key is makes no version (G9); a tombstone is in a memgest that
//            outlives every version below it that may still be there (G4). What may be there
//            follows from the rule of collection (G1).
// Shape:     only keys of which every write was answered: else what stands between is not known.
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations.
#ifndef RING_TESTS_SIM_CHECKERS_MEMGEST_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_MEMGEST_CHECKER_H_

#include <functional>
#include <map>
#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

// By key: the versions that G1 keeps below the newest one, newest first, of reliable memgests. A
// coordinator must have their lines.
using KeptVersions = std::map<int, std::vector<Version>>;

// skip: keys that are not looked at.
std::vector<Violation> CheckMemgests(const History& history,
                                     const std::function<bool(int key)>& skip, KeptVersions* kept);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_MEMGEST_CHECKER_H_
