// rdma/soft/warm_runs.h — memory whose first pages the system gave before anybody needs them.
//
// What:      WarmRuns keeps a few runs of private memory ready, of which a part was touched. Who
//            takes a shard over needs fresh memory for lines and key tables, and a page's first
//            write takes longer than what is written.
// Shape:     runs of kRunSize; of each the first kWarmSize bytes are touched, kStepSize at a time,
//            since the thread that does it serves requests.
// Units:     bytes.
// Ownership: none of the memory.
// Threads:   thread-compatible.
// Errors:    null: there is none.
// Cost:      kWarmSize of memory for each run. A step is 16 pages, about 10 us.
// Source:    docs/BENCHMARKS.md, "Recovery".
#ifndef RING_RDMA_SOFT_WARM_RUNS_H_
#define RING_RDMA_SOFT_WARM_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rdma/soft/control_layout.h"

namespace ring::rdma::soft {

class WarmRuns {
 public:
  static constexpr std::uint64_t kRunSize = kArenaAlignment;
  static constexpr std::uint64_t kWarmSize = 512 * 1024;

  explicit WarmRuns(std::size_t count) : count_(count) {}

  bool WantsMore() const { return runs_.size() < count_; }
  // REQUIRES: its pages are zero.
  void Add(std::byte* run) { runs_.push_back({run, 0}); }
  // The one that is warmest.
  std::byte* Take() {
    if (runs_.empty()) return nullptr;
    std::byte* const run = runs_.front().address;
    runs_.erase(runs_.begin());
    return run;
  }
  // A step, of the run that came first. False: all are warm.
  bool Touch() {
    for (Run& run : runs_) {
      if (run.warm_size == kWarmSize) continue;
      for (std::uint64_t page = 0; page < kStepSize; page += kPageSize)
        *static_cast<volatile std::byte*>(run.address + run.warm_size + page) = std::byte{0};
      run.warm_size += kStepSize;
      return true;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kPageSize = 4096;
  static constexpr std::uint64_t kStepSize = 16 * kPageSize;
  struct Run {
    std::byte* address = nullptr;
    std::uint64_t warm_size = 0;
  };

  std::size_t count_;
  std::vector<Run> runs_;  // in the order in which they came
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_WARM_RUNS_H_
