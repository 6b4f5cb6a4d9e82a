// tests/sim/withhold.h — a coordinator whose entries reach nobody, or one member alone, and that is
// lost behind an answer.
//
// What:      Withhold blocks what a node sends to the others, and says when the node told a client
//            something all the same: a value, that there is none, a version that does not match.
//            What it goes by may then be in no log but its own, and go with it (V9, E4, S1).
// Shape:     one at a time; a moment at most, which nobody takes for a loss.
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none.
// Source:    fault classes F1 and F6.
#ifndef RING_TESTS_SIM_WITHHOLD_H_
#define RING_TESTS_SIM_WITHHOLD_H_

#include <cstdint>
#include <map>
#include <vector>

#include "ring/base/random.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class Withhold {
 public:
  Withhold(SimCluster* cluster, const FaultOptions& options)
      : cluster_(cluster), options_(options) {}

  void Begin(NodeId node, Random& random);
  // Whether it is an answer of the node's, to what was asked since.
  bool IsAnswer(const Operation& op);
  // The node is lost: what it sent stays away for good.
  void KeepAway();
  // Until then nothing gets away from where the node was: its next start would be cut off, too.
  std::uint64_t GoneUntilNs(NodeId node) const { return node == node_ ? gone_until_ns_ : 0; }

 private:
  std::uint64_t now_ns() const { return cluster_->network().now_ns(); }
  void Block(std::uint64_t until_ns);

  SimCluster* cluster_;
  FaultOptions options_;
  std::map<NodeId, std::uint64_t> quiet_until_ns_;
  NodeId node_;
  std::vector<NodeId> others_;  // those that it does not reach
  std::uint64_t begun_ns_ = 0;
  std::uint64_t end_ns_ = 0;
  std::uint64_t gone_until_ns_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_WITHHOLD_H_
