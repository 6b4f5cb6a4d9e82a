// tests/sim/checkers/exactly_once_checker.h — a value is executed once, or not if it failed.
//
// What:      CheckExactlyOnce: what was read with which version. A put's value has the version of
//            its answer and, beside it, those of moves (X1); one that failed is never read (X5);
//            no value is read that nobody put there. What memgests of f = 0 lost is no excuse:
//            who asks again is told that nobody knows (X7).
// Ownership: borrows the history.
// Threads:   pure.
// Errors:    Violations.
// Source:    rules I3, X1, X5, X7.
#ifndef RING_TESTS_SIM_CHECKERS_EXACTLY_ONCE_CHECKER_H_
#define RING_TESTS_SIM_CHECKERS_EXACTLY_ONCE_CHECKER_H_

#include <functional>
#include <vector>

#include "tests/sim/history.h"

namespace ring::sim {

// What the cluster may have forgotten with its records, of memgests of f >= 1 (F3, E8).
struct LossModel {
  std::function<bool(int key)> of;       // anything
  std::function<Epoch(int key)> before;  // ... of epochs before this one
};

std::vector<Violation> CheckExactlyOnce(const History& history, const LossModel& losses);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_CHECKERS_EXACTLY_ONCE_CHECKER_H_
