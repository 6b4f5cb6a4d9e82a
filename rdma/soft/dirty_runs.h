// rdma/soft/dirty_runs.h — memory that was freed, and is the system's only bit by bit.
//
// What:      DirtyRuns: runs whose pages are still there. To give the pages of a large shard back
//            takes 50 us for 2 MiB of small ones, and its thread serves others: a slice at a time,
//            it makes of runs what FreedRuns may have.
// Shape:     runs are multiples of kUnit; of memory for huge pages that is a slice, as less would
//            leave the page and split it.
// Units:     bytes.
// Ownership: none of the memory.
// Threads:   thread-compatible.
// Errors:    none.
// Cost:      O(1).
#ifndef RING_RDMA_SOFT_DIRTY_RUNS_H_
#define RING_RDMA_SOFT_DIRTY_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "rdma/fabric.h"
#include "rdma/soft/control_layout.h"

namespace ring::rdma::soft {

class DirtyRuns {
 public:
  static constexpr std::uint64_t kUnit = kArenaAlignment;
  static constexpr std::uint64_t kSliceSize = 256 * 1024;

  struct Slice {
    std::byte* address = nullptr;
    std::uint64_t size = 0;
    MemoryKind kind = MemoryKind::kShared;
    std::byte* unit = nullptr;  // not null: with it kUnit bytes are clean that begin here
  };

  bool empty() const { return runs_.empty(); }
  std::uint64_t size() const { return size_; }
  void Add(std::byte* address, std::uint64_t size, MemoryKind kind) {
    runs_.push_back({address, size, kind});
    size_ += size;
  }
  // What is to be cleaned next, in the order of Add. REQUIRES: not empty.
  Slice Take() {
    Run& run = runs_.front();
    Slice slice;
    slice.address = run.address + run.taken;
    slice.size = run.kind == MemoryKind::kPrivateHuge ? kUnit : kSliceSize;
    slice.kind = run.kind;
    run.taken += slice.size;
    size_ -= slice.size;
    if (run.taken % kUnit == 0) slice.unit = run.address + run.taken - kUnit;
    if (run.taken == run.size) runs_.pop_front();
    return slice;
  }

 private:
  struct Run {
    std::byte* address = nullptr;
    std::uint64_t size = 0;
    MemoryKind kind = MemoryKind::kShared;
    std::uint64_t taken = 0;
  };
  static_assert(kUnit % kSliceSize == 0);

  std::deque<Run> runs_;
  std::uint64_t size_ = 0;  // of all that was not taken
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_DIRTY_RUNS_H_
