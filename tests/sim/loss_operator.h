// tests/sim/loss_operator.h — who accepts what shards of a simulated cluster lost (E8).
//
// What:      Looks at what nodes report, as `ringctl accept-loss` does, waits for a while, and says
//            that the shards which it saw may go on without what they had lost then. If it is still
//            so, what was told of just that is owed no more from then on: nothing else may vanish.
//            It says so again for what stops anew, or when its word did not come through.
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none.
// Source:    rule E8.
#ifndef RING_TESTS_SIM_LOSS_OPERATOR_H_
#define RING_TESTS_SIM_LOSS_OPERATOR_H_

#include <cstdint>
#include <vector>

#include "ring/base/random.h"
#include "ring/cluster/health_summary.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

class LossOperator {
 public:
  LossOperator(SimCluster* cluster, const FaultOptions& options)
      : options_(options), cluster_(cluster), random_(cluster->seed() ^ 0xacce97) {}

  // Called again and again; does what is due, once more was lost than memgests survive.
  void Act();

 private:
  std::vector<cluster::NodeHealth> Ask() const;
  void Look();
  void Say();
  SimNode* NodeToAsk() const;

  FaultOptions options_;
  SimCluster* cluster_;
  SeededRandom random_;
  std::vector<cluster::StoppedShard> seen_;
  std::uint64_t next_ns_ = 0;  // it looks, or says what it saw
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_LOSS_OPERATOR_H_
