// tests/sim/checkers/search_checker.h — linearizability of one key by search, without versions.
//
// What:      looks for an order of the operations of each key that respects real time and in which
//            every answer is right. A second opinion: it knows nothing of versions and memgests.
// Shape:     depth first, after Wing and Gong with Lowe's memory of what was tried; bounded by
//            step_max for each key.
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations. Keys whose search was given up are named apart.
// Source:    Wing, Gong: Testing and verifying concurrent objects (1993); Lowe: Testing for
//            linearizability (2017).
#ifndef RING_TESTS_SIM_CHECKERS_SEARCH_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_SEARCH_CHECKER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

struct SearchReport {
  std::vector<Violation> violations;
  std::uint64_t keys_checked = 0;
  std::vector<int> given_up;  // keys
  std::uint64_t steps = 0;
};

// skip: keys that are not looked at.
SearchReport SearchLinearization(const History& history, const std::function<bool(int key)>& skip,
                                 std::uint64_t step_max = 200'000);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_SEARCH_CHECKER_H_
