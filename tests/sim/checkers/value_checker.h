// tests/sim/checkers/value_checker.h — every copy of every value fits its checksum.
//
// What:      CheckValues looks at all values that lie in one piece, at coordinators and replicas:
//            what does not fit the checksum of its version had a bit turned in this very copy
//            (F10). Damage does not spread: neither to who fetches a value nor to what is decoded.
// Threads:   one.
// Errors:    a Violation for each copy.
// Source:    rules F10, E3, S12, I4.
#ifndef RING_TESTS_SIM_CHECKERS_VALUE_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_VALUE_CHECKER_H_

#include <vector>

#include "tests/sim/sim_cluster.h"

namespace ring::sim {

// REQUIRES: no operation and no epoch change is under way.
std::vector<Violation> CheckValues(SimCluster* cluster);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_VALUE_CHECKER_H_
