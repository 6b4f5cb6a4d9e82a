// tests/sim/absences.h — nodes that have their memory and are counted as lost.
//
// What:      Absences knows up to when each node is silent, drained, or not let in: who is missed
//            by the others is a failure like one that lost its memory (docs/GLOSSARY.md).
// Shape:     of several reasons the last one to end counts.
// Units:     nanoseconds of simulated time.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    none.
// Source:    docs/GLOSSARY.md (failure); fault classes F5, F6, F12, F14.
#ifndef RING_TESTS_SIM_ABSENCES_H_
#define RING_TESTS_SIM_ABSENCES_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "ring/base/id.h"

namespace ring::sim {

class Absences {
 public:
  static constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();

  void Add(NodeId node, std::uint64_t until_ns) {
    if (node.value() >= until_ns_.size()) until_ns_.resize(node.value() + 1);
    std::uint64_t& last_ns = until_ns_[node.value()];
    last_ns = std::max(last_ns, until_ns);
  }
  bool IsAway(NodeId node, std::uint64_t now_ns) const {
    return node.value() < until_ns_.size() && now_ns < until_ns_[node.value()];
  }

 private:
  std::vector<std::uint64_t> until_ns_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_ABSENCES_H_
