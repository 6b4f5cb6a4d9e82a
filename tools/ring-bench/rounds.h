// tools/ring-bench/rounds.h — measurements that take turns, so that what slows one slows its peer.
//
// What:      Rounds, the options of it; RoundRatio: how many times as fast as the peer.
// Units:     nanoseconds of one operation, in each round.
// Threads:   pure.
// Errors:    none; the command line refuses what is out of bounds.
#ifndef RING_TOOLS_RING_BENCH_ROUNDS_H_
#define RING_TOOLS_RING_BENCH_ROUNDS_H_

#include <vector>

#include "CLI/CLI.hpp"

namespace ring::bench {

struct Rounds {
  int count = 0;
  int milliseconds = 0;  // about how long one measures
};

// --rounds, --milliseconds; what stands there is the default.
void AddRoundOptions(CLI::App* command, Rounds* rounds);

// The median over the rounds. REQUIRES: both have as many.
double RoundRatio(const std::vector<double>& peer_ns, const std::vector<double>& own_ns);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_ROUNDS_H_
