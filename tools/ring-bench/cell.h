// tools/ring-bench/cell.h — one memgest and one kind of work, over all rounds.
//
// What:      Cell: what kv and ycsb keep of each of the works that they compare; each adds what it
//            alone looks at.
// Units:     histograms in nanoseconds; rates in operations a second.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    Verdict: kDataLoss for a wrong value, kAborted for an operation that failed.
#ifndef RING_TOOLS_RING_BENCH_CELL_H_
#define RING_TOOLS_RING_BENCH_CELL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/ring-bench/client_loop.h"

namespace ring::bench {

struct Cell {
  MemgestId id;
  std::uint16_t key_space = 0;  // its own keys
  Histogram gets;               // degraded ones apart
  Histogram puts;
  std::vector<double> rates;     // by round
  std::uint64_t operations = 0;  // those measured
  std::uint64_t failed = 0;
  std::uint64_t wrong_values = 0;
  std::string first_error;

  // Of all clients of a round, which measured for so long.
  void AddRound(absl::Span<const LoopResult> results, double seconds);
  // where: names the cell.
  absl::Status Verdict(absl::string_view where) const;
};

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_CELL_H_
