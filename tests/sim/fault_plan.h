// tests/sim/fault_plan.h — what goes wrong during a run, and when.
//
// What:      FaultPlan turns on some of the fabric's faults for the whole run, and injects others
//            at times of its own: pauses, client crashes, connections that break, catalogue
//            changes, memory that runs out, clocks that drift; what befalls nodes (node_faults.h)
//            unless FaultOptions::node_faults is 0.
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none.
// Source:    fault classes F1 to F15.
#ifndef RING_TESTS_SIM_FAULT_PLAN_H_
#define RING_TESTS_SIM_FAULT_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ring/base/random.h"
#include "ring/protocol/hello.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/loss_operator.h"
#include "tests/sim/node_faults.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_echo.h"

namespace ring::sim {

class FaultPlan {
 public:
  FaultPlan(SimCluster* cluster, Random* random, const FaultOptions& options,
            const NodeFaults::Run& run);
  ~FaultPlan();

  // Called again and again; does what is due.
  void Act();
  // Everything works again from now on.
  void End();
  // No catalogue change or scrub is under way.
  bool quiet();
  // Nodes that were added are part of the cluster, or asked for once more.
  bool settled() { return nodes_ == nullptr || nodes_->Settled(); }
  // What shards lost is accepted, when its time has come: also once the faults are over.
  void AcceptLosses() {
    if (loss_operator_ != nullptr) loss_operator_->Act();
  }
  // Nodes hear that scrubs under load are over, also who could not be reached then. True: all have.
  bool EndScrubs() { return scrubber_.StopsHeard(); }
  // What is, for a message.
  std::string Waiting() const;

 private:
  using Action = void (FaultPlan::*)();
  struct Due {
    Action action;
    std::uint64_t mean_ns;  // between two of them
    std::uint64_t next_ns;
    Random* random;
  };

  void Add(Action action, std::uint64_t mean_ns, Random* random);
  // Kinds that are drawn apart, so that everything else comes as ever.
  void AddApart();
  void SetFabric(Random* random);
  void PauseNode();
  void CrashClient();
  void BreakConnection();
  void ChangeCatalogue();
  void DriftClock();
  void ExhaustMemory();
  void PartitionClient();
  void Scrub();
  void PollScrub();
  void DamageValue();
  void DamageCopy();
  void DamageRow();
  void BreakLog();
  void BreakControl();
  void BreakBetween(protocol::HelloKind kind, const char* name);
  void ExhaustQueuePairs();
  void RefuseVotes();
  void AskAgain();
  void ForceDelete();
  int AnyKey(Random& random);
  SimNode* AnyNode();
  SimNode* AnyNode(Random& random);
  SimClient* AnyClient();

  FaultOptions options_;
  SimCluster* cluster_;
  Random* random_;
  SeededRandom apart_;
  SeededRandom disks_;
  SeededRandom echoes_;
  std::vector<Due> due_;
  std::unique_ptr<NodeFaults> nodes_;            // null: nodes stay
  std::unique_ptr<LossOperator> loss_operator_;  // null: what stopped stays so
  bool clocks_jump_;
  bool sturdy_;                    // as NodeFaults::Run
  std::shared_ptr<SimEcho> echo_;  // null: no request comes again
  SimAdmin scrubber_;
  bool scrubbing_ = false;
  std::uint64_t next_poll_ns_ = 0;
  std::uint64_t next_scrub_ = 1'000'000;
  std::uint64_t changes_under_way_ = 0;
  int created_ = 0;
  std::uint64_t client_crashes_ = 0;
  std::vector<std::string> made_;      // memgests of this plan's that may be deleted
  std::uint64_t client_heals_ns_ = 0;  // of the last partition of a client
  std::uint64_t memory_back_ns_ = 0;
  std::uint64_t queue_pairs_back_ns_ = 0;
  std::uint64_t forced_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_FAULT_PLAN_H_
