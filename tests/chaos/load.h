// tests/chaos/load.h — clients that use a cluster and write down what they were told.
//
// What:      Load: some clients, each with a thread and its own operations: gets, puts, moves,
//            deletes, conditional ones, through all memgests. Keys come in generations, so that no
//            key has a long history; those of earlier ones are read now and then.
// Units:     nanoseconds of CLOCK_MONOTONIC.
// Ownership: owns its threads; borrows the watch.
// Threads:   Start, Stop and ReadAll from one thread.
// Errors:    what is wrong with a single answer is a Violation.
// Source:    rules I2 to I4.
#ifndef RING_TESTS_CHAOS_LOAD_H_
#define RING_TESTS_CHAOS_LOAD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/client.h"
#include "ring/base/random.h"
#include "ring/base/sync.h"
#include "tests/chaos/chaos_options.h"
#include "tests/chaos/view_watch.h"
#include "tests/sim/history.h"
#include "tests/sim/workload.h"

namespace ring::chaos {

class Load {
 public:
  Load(const ChaosOptions& options, std::vector<std::string> seeds, const ViewWatch* watch);
  ~Load();

  void Start();
  // No more new operations; waits for those under way.
  void Stop();
  // Every key that was ever used, once, patiently. REQUIRES: stopped.
  void ReadAll();

  // Of all clients, in order of invocation. REQUIRES: stopped.
  sim::History TakeHistory();
  std::vector<sim::Violation> TakeViolations();
  std::uint64_t answered() const { return answered_; }

 private:
  class Process;
  static constexpr int kGenerationKeys = 16;
  static constexpr std::uint64_t kGenerationNs = 4'000'000'000;

  sim::Operation Next(Random& random);
  std::shared_ptr<const cluster::View> View() const { return watch_->view(); }
  void Complain(sim::Violation violation);

  const ChaosOptions& options_;
  const std::vector<std::string> seeds_;
  const ViewWatch* const watch_;
  std::uint64_t started_ns_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> answered_{0};
  Mutex mutex_;
  SeededRandom random_ ABSL_GUARDED_BY(mutex_);
  sim::Workload workload_ ABSL_GUARDED_BY(mutex_);
  std::vector<sim::Violation> violations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<sim::Operation> ended_;
};

}  // namespace ring::chaos

#endif  // RING_TESTS_CHAOS_LOAD_H_
