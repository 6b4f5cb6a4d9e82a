// rdma/soft/freed_runs.h — memory of an arena that was given back.
//
// What:      FreedRuns: runs of one kind of memory. Take gives the beginning of the shortest that
//            is long enough; what is given back is joined with its neighbours, so that lengths that
//            come and go (rings, key tables that grow, blocks that are decoded) leave no arena in
//            pieces.
// Shape:     lengths are multiples of the arena's alignment. Runs do not touch each other.
// Ownership: none of the memory.
// Threads:   thread-compatible.
// Errors:    null: none is long enough.
// Cost:      logarithmic in the number of runs.
#ifndef RING_RDMA_SOFT_FREED_RUNS_H_
#define RING_RDMA_SOFT_FREED_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace ring::rdma::soft {

class FreedRuns {
 public:
  void Add(std::byte* address, std::uint64_t size) {
    auto behind = by_address_.upper_bound(address);
    if (behind != by_address_.end() && address + size == behind->first) {
      size += behind->second;
      behind = Remove(behind);
    }
    if (behind != by_address_.begin()) {
      const auto before = std::prev(behind);
      if (before->first + before->second == address) {
        address = before->first;
        size += before->second;
        Remove(before);
      }
    }
    Insert(address, size);
  }
  std::byte* Take(std::uint64_t size) {
    const auto found = by_size_.lower_bound({size, nullptr});
    if (found == by_size_.end()) return nullptr;
    const auto [length, address] = *found;
    Remove(by_address_.find(address));
    if (length > size) Insert(address + size, length - size);
    return address;
  }

 private:
  using ByAddress = std::map<std::byte*, std::uint64_t>;
  void Insert(std::byte* address, std::uint64_t size) {
    by_address_[address] = size;
    by_size_.insert({size, address});
  }
  ByAddress::iterator Remove(ByAddress::iterator run) {
    by_size_.erase({run->second, run->first});
    return by_address_.erase(run);
  }

  ByAddress by_address_;
  std::set<std::pair<std::uint64_t, std::byte*>> by_size_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_FREED_RUNS_H_
