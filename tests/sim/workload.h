// tests/sim/workload.h — what the clients of a run ask for.
//
// What:      Workload draws operations: few keys, of which some are hot; every seed has its own mix
//            of kinds, sizes and memgests (swarm testing: what is rare in one run is common in the
//            next).
// Ownership: values; borrows the random numbers.
// Threads:   one.
// Errors:    none.
// Source:    Groce and others: Swarm testing (2012).
#ifndef RING_TESTS_SIM_WORKLOAD_H_
#define RING_TESTS_SIM_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <vector>

#include "ring/base/random.h"
#include "ring/cluster/view.h"
#include "tests/sim/history.h"

namespace ring::sim {

class Workload {
 public:
  // key_count 0: drawn.
  explicit Workload(Random* random, std::uint64_t key_count = 0);

  // A further operation; of the view the memgests are taken.
  Operation Next(const cluster::View& view);
  Operation NextGet();
  // When a client that ended one asks for the next.
  std::uint64_t ThinkNs();
  // Nothing is put into, or moved to, what loses it with one node.
  void set_strong() { strong_ = true; }
  void set_think_max_ns(std::uint64_t time_ns) { think_max_ns_ = time_ns; }
  // A version that somebody was told of: what conditions are made of.
  void Learn(int key, Version version) { known_[key] = version; }
  int key_count() const { return static_cast<int>(key_count_); }
  ValueId NextValue() { return ++last_value_; }

 private:
  int AnyKey();
  std::uint32_t Size();

  Random* random_;
  std::uint64_t key_count_;
  std::uint64_t hot_percent_;  // of operations on key 0
  std::uint64_t think_max_ns_;
  std::uint64_t weights_[6];  // get, put, delete, move, conditional put, conditional delete or move
  std::uint64_t large_percent_;
  std::uint64_t huge_percent_;
  // Of conditions that are drawn from a version that is not the newest.
  std::uint64_t stale_percent_;
  bool strong_ = false;
  std::map<int, Version> known_;
  ValueId last_value_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_WORKLOAD_H_
