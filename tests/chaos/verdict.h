// tests/chaos/verdict.h — what a history of real processes says, by the simulation's checkers.
//
// What:      CheckHistory replays a history in the order of its times through the version checker,
//            with what Rep(1) may have lost between (G6), and gives it to the search checker,
//            without the keys that G6 concerns. CheckRun says whether the run shows anything.
// Shape:     times are those of the clients' machine: an operation lies between its two. At equal
//            times what begins comes first, which forbids less.
// Threads:   pure.
// Errors:    Violations.
// Source:    rules I1 to I4, G6, X1.
#ifndef RING_TESTS_CHAOS_VERDICT_H_
#define RING_TESTS_CHAOS_VERDICT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ring/cluster/routing.h"
#include "tests/sim/history.h"

namespace ring::chaos {

// A shard's coordinator is another one from this epoch of its group on.
struct OwnerLoss {
  cluster::Place place;
  Epoch epoch;
  // By the clients' clock: at some time in here what Rep(1) had went with the former one.
  std::uint64_t from_ns = 0;
  std::uint64_t until_ns = 0;
};

struct Verdict {
  std::vector<sim::Violation> violations;
  std::uint64_t operations = 0;
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;
  std::uint64_t unknown = 0;
  std::uint64_t search_keys = 0;
  std::uint64_t search_given_up = 0;   // each is a violation, too
  std::uint64_t keys_with_losses = 0;  // of Rep(1), by G6: not searched
};

// search_step_max: the work on one key, after which its search is given up: then only the version
// checker has judged it, and a run that was to be searched was not.
inline constexpr std::uint64_t kSearchStepMax = 2'000'000;
Verdict CheckHistory(const sim::History& history, const std::vector<OwnerLoss>& losses,
                     const cluster::Routing& routing,
                     std::uint64_t search_step_max = kSearchStepMax);

// A run in which nothing was answered, or nothing was done to the nodes, shows nothing. injected:
// how often each class of faults happened.
std::vector<sim::Violation> CheckRun(const Verdict& verdict,
                                     const std::map<std::string, int>& injected);

}  // namespace ring::chaos

#endif  // RING_TESTS_CHAOS_VERDICT_H_
