// tools/ring-bench/cost_counters.h — what an operation costs besides time.
//
// What:      CostCounters::Now(): calls of operator new in this process (all threads), and how
//            often its threads gave up the processor (voluntary context switches: a sleep, a futex,
//            a blocking system call). Differences of two give the cost between them.
// Units:     counts since the process began. Of this process only: with a ringd of its own the
//            cluster's share is not in them.
// Threads:   any.
// Errors:    none.
// Cost:      Now: one system call. operator new: one relaxed atomic addition.
#ifndef RING_TOOLS_RING_BENCH_COST_COUNTERS_H_
#define RING_TOOLS_RING_BENCH_COST_COUNTERS_H_

#include <cstdint>

namespace ring::bench {

struct CostCounters {
  std::uint64_t allocations = 0;
  std::uint64_t voluntary_switches = 0;
  double cpu_seconds = 0;  // user and system, all threads

  static CostCounters Now();
};

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_COST_COUNTERS_H_
