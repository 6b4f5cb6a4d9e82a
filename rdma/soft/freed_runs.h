// rdma/soft/freed_runs.h — memory of an arena that was given back.
//
// What:      FreedRuns: runs of one kind of memory, by their length. Take gives one of just that
//            length, Cut the beginning of a longer one.
// Shape:     lengths are multiples of the arena's alignment. Runs are never joined: who asks for a
//            length mostly asks for it again.
// Ownership: none of the memory.
// Threads:   thread-compatible.
// Errors:    null: there is none.
// Cost:      logarithmic in the number of lengths.
#ifndef RING_RDMA_SOFT_FREED_RUNS_H_
#define RING_RDMA_SOFT_FREED_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ring::rdma::soft {

class FreedRuns {
 public:
  void Add(std::byte* address, std::uint64_t size) { runs_[size].push_back(address); }
  std::byte* Take(std::uint64_t size) {
    const auto found = runs_.find(size);
    return found == runs_.end() ? nullptr : Pop(found);
  }
  // What is left of the run stays here.
  std::byte* Cut(std::uint64_t size) {
    const auto longer = runs_.upper_bound(size);
    if (longer == runs_.end()) return nullptr;
    const std::uint64_t left = longer->first - size;
    std::byte* const address = Pop(longer);
    Add(address + size, left);
    return address;
  }

 private:
  using Runs = std::map<std::uint64_t, std::vector<std::byte*>>;
  std::byte* Pop(Runs::iterator of_size) {
    std::byte* const address = of_size->second.back();
    of_size->second.pop_back();
    if (of_size->second.empty()) runs_.erase(of_size);
    return address;
  }
  Runs runs_;  // none is empty
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_FREED_RUNS_H_
