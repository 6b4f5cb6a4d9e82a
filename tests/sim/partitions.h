// tests/sim/partitions.h — nodes that cannot reach each other.
//
// What:      Partitions parts the nodes in two halves, one way only, or with one that reaches both;
//            all from all, so that no quorum is left (F13); two, which all others reach; or cuts
//            some off from all others, now and then with some of the clients, which reach nobody
//            else: they may go on asking them while somebody else serves the others their keys
//            (L1).
// Shape:     one at a time, and partitions of clients beside it.
// Ownership: borrows the cluster and the random numbers.
// Threads:   one.
// Errors:    none.
// Source:    fault classes F6 and F13.
#ifndef RING_TESTS_SIM_PARTITIONS_H_
#define RING_TESTS_SIM_PARTITIONS_H_

#include <cstdint>
#include <set>

#include "ring/base/random.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class Partitions {
 public:
  Partitions(SimCluster* cluster, Random* random, const FaultOptions& options);

  bool any() const { return cluster_->network().now_ns() < heal_ns_; }
  // REQUIRES of all of these: !any().
  void Part(std::uint64_t length_ns);
  void PartAll(std::uint64_t length_ns);
  void CutOff(const std::set<NodeId>& nodes, std::uint64_t length_ns);
  void PartPair(NodeId one, NodeId other, std::uint64_t length_ns);

 private:
  void Begin(std::uint64_t length_ns);
  void Block(rdma::sim::HostId from, rdma::sim::HostId to) {
    cluster_->network().Block(from, to, heal_ns_);
  }

  FaultOptions options_;
  SimCluster* cluster_;
  Random* random_;
  SeededRandom clients_;  // apart, so that everything else comes as ever
  std::uint64_t heal_ns_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_PARTITIONS_H_
