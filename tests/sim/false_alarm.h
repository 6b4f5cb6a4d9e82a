// tests/sim/false_alarm.h — a node that is taken for lost while it has the last copy of something.
//
// What:      FalseAlarm keeps a node silent until its roles are another's, and that one still until
//            the first has a role back: nobody has joined in its place then. If another node was
//            lost as well, a shard stops, until it gets who has its values back (E8).
// Shape:     pauses (F5), made longer as the view asks for it; nobody else is missed.
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none: what does not become of it in time is given up.
// Source:    fault class F5; rule E8.
#ifndef RING_TESTS_SIM_FALSE_ALARM_H_
#define RING_TESTS_SIM_FALSE_ALARM_H_

#include <cstdint>
#include <optional>

#include "ring/base/random.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class FalseAlarm {
 public:
  FalseAlarm(SimCluster* cluster, const FaultOptions& options)
      : options_(options), cluster_(cluster) {}

  // The node is silent soon. REQUIRES: none is under way.
  void Begin(NodeId missed, Random& random);
  // Called again and again.
  void Act();
  void End() { missed_.reset(); }

 private:
  std::uint64_t now_ns() const { return cluster_->network().now_ns(); }
  std::uint64_t GivenBack() const;
  void HoldUp(NodeId node, std::uint64_t until_ns);

  FaultOptions options_;
  SimCluster* cluster_;
  std::optional<NodeId> missed_;      // none: nothing is under way
  std::optional<NodeId> instead_;     // has its roles
  std::uint64_t silent_ns_ = 0;       // from then on
  std::uint64_t wakes_after_ns_ = 0;  // it was missed
  std::uint64_t wakes_ns_ = 0;        // 0: it was not missed yet
  std::uint64_t over_ns_ = 0;
  std::uint64_t given_back_ = 0;  // roles, before
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_FALSE_ALARM_H_
