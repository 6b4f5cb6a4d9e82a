// tools/ring-bench/client_loop.h — one client that keeps requests under way and times them.
//
// What:      ClientLoop: closed loop (a new request as soon as one of `pipeline` ends), or open
//            loop (requests are due at a fixed rate, and latency counts from when one was due: a
//            server that stalls cannot hide the requests it delayed, "coordinated omission").
// Units:     histograms in nanoseconds; seconds.
// Ownership: borrows the client.
// Threads:   one thread runs a loop, or several in turn; loops share nothing.
// Errors:    outcomes other than OK are counted, the first is kept; wrong values are counted.
// Cost:      two time stamps a request, no allocation.
#ifndef RING_TOOLS_RING_BENCH_CLIENT_LOOP_H_
#define RING_TOOLS_RING_BENCH_CLIENT_LOOP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "api/client.h"
#include "ring/base/histogram.h"
#include "tools/ring-bench/cost_counters.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {

struct LoopOptions {
  MemgestId memgest;
  std::uint16_t key_space = 0;
  std::uint64_t key_count = 1;
  std::size_t value_size = 1024;
  double read_ratio = 1;
  Distribution distribution = Distribution::kUniform;
  std::size_t pipeline = 1;
  DegradedOptions degraded = {};  // of the gets
  double rate = 0;                // requests a second of this client; 0: closed loop
  double warm_up_seconds = 0.2;
  double seconds = 1;
  std::uint64_t seed = 1;
};

struct LoopResult {
  Histogram gets;
  Histogram puts;
  Histogram degraded;                   // gets, apart from the others
  std::uint64_t degraded_answered = 0;  // also those that were not measured
  std::uint64_t answered = 0;           // likewise, of all
  double seconds = 0;
  std::uint64_t failed = 0;
  std::uint64_t wrong_values = 0;
  std::string first_error;
  CostCounters before;
  CostCounters after;

  std::uint64_t completed() const { return gets.count() + puts.count() + degraded.count(); }
};

class ClientLoop {
 public:
  ClientLoop(Client* client, const LoopOptions& options);
  // All of them in turn on this thread, until all are done.
  static std::vector<LoopResult> Run(absl::Span<const std::unique_ptr<ClientLoop>> loops);

 private:
  struct Slot {
    std::uint64_t start = 0;  // ticks
    std::uint64_t index = 0;  // of the key
    bool is_get = false;
    bool is_degraded = false;
    std::vector<char> value;
  };
  void Start(std::uint64_t now);
  // Issues and takes what there is; gives whether an answer came.
  bool Step();
  bool done() const { return done_; }
  void Issue(std::uint64_t start);
  void Take(const Completion& completion, std::uint64_t now);
  bool Measuring(std::uint64_t now) const { return now >= measure_from_ && now <= end_; }

  Client* client_;
  LoopOptions options_;
  KeyChooser keys_;
  DegradedArrivals degraded_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::array<Completion, 64> completions_;  // built once: clearing it takes longer than a poll
  std::uint64_t measure_from_ = 0;
  std::uint64_t end_ = 0;
  double next_due_ = 0;  // ticks, open loop
  double interval_ = 0;
  double ns_per_tick_ = 1;
  bool measuring_ = false;
  bool done_ = false;
  LoopResult result_;
};

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_CLIENT_LOOP_H_
