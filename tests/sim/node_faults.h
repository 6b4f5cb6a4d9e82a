// tests/sim/node_faults.h — nodes that crash, start again, and cannot reach each other.
//
// What:      NodeFaults crashes nodes at any event (F1), two at or about one time (F2), often just
//            behind a change of the view, when others are in the midst of taking over (E2, E7), or
//            when a write was answered that not all members have yet (E1); it
//            starts them again with nothing, before they were missed (F4) or after; parts them
//            from each other for a while (F6), also so that no quorum is left (F13);
//            drains one, which may be removed then, and adds one (F12);
//            starts one with a release that speaks another protocol, until it is replaced (F14);
//            silences one for so long that others take over (F5, F6), once also one that a shard
//            cannot do without, as another was lost (E8).
// Shape:     only what the cluster promises to survive at that moment: survival.h and a majority of
//            the voters decide. With Run::overrun once more than that, at last (F3).
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none.
// Source:    fault classes F1 to F15.
#ifndef RING_TESTS_SIM_NODE_FAULTS_H_
#define RING_TESTS_SIM_NODE_FAULTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "ring/base/random.h"
#include "tests/sim/absences.h"
#include "tests/sim/aim.h"
#include "tests/sim/at_switch.h"
#include "tests/sim/false_alarm.h"
#include "tests/sim/fault_options.h"
#include "tests/sim/partitions.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/withhold.h"

namespace ring::sim {

class NodeFaults {
 public:
  // What was drawn for this run.
  struct Run {
    bool overrun = false;
    bool accepts = false;    // an operator lets shards go on without what they lost
    bool zombies = false;    // some are missed, and come back as who they were (F5, F6)
    bool alarm = false;      // one is missed while it has the last copy of something (E8)
    bool aims = false;       // blows meet a certain step of takeovers and joins
    bool sturdy = false;     // memgests survive two losses, and so do those that are made
    bool checks = false;     // no fence rests on clocks
    bool at_switch = false;  // ... and meet the line that a bug switch would break
  };
  NodeFaults(SimCluster* cluster, Random* random, const FaultOptions& options, const Run& run);
  ~NodeFaults();

  // Called again and again; does what is due.
  void Act();
  // No more faults: who is down starts again, who was parted is not any more.
  void End();
  // A node that was added is known to all. False: the operator asked once more.
  bool Settled();

 private:
  class Later;  // what comes at a time of its own
  struct Down {
    std::uint64_t restart_ns = 0;
    std::uint32_t view_epoch = 0;  // when it went
  };

  std::uint64_t now_ns() const { return cluster_->network().now_ns(); }
  // Small and large ones alike: most of what goes wrong is over in microseconds, or takes long.
  std::uint64_t LogUniform(std::uint64_t from_ns, std::uint64_t to_ns);
  // missed: of `nodes`, it has its memory, and is to have a role back.
  bool MayLose(const std::set<NodeId>& nodes, NodeId missed = cluster::kNoNode);
  // The node that knows most of what was agreed upon; null: none is up.
  node::Node* BestInformed();
  bool QuorumWithout(const std::set<NodeId>& nodes);
  bool DisksKnowMore(const consensus::RaftLog& log);
  NodeId Victim();
  void PlanBlow();
  void AimBlow();
  void StrikeAt(std::uint64_t at_ns, NodeId node);
  void Strike(NodeId node);
  void Obey(const AtSwitch::Order& order);
  void Crash(NodeId node);
  void OnAnswer(const Operation& op);
  void Overrun();
  void Drain();
  void AddNode();
  void ProposeAdded();
  void RemoveDrained();
  void Silence(NodeId id);
  std::set<NodeId> WithAnother(NodeId id);
  void WithholdEntries();
  void WithholdEntriesOf(NodeId node);
  bool PartPair();
  bool SomebodyIsMissing();
  void LookForFalseAlarm();
  bool RaiseFalseAlarm();
  bool AllServe();
  void RestartDue();
  void SpeakForeign(NodeId node);
  void SpeakDue();
  void Part();

  FaultOptions options_;
  SimCluster* cluster_;
  Random* random_;
  SeededRandom apart_;
  SeededRandom disks_;
  SeededRandom alarms_;
  SeededRandom withholds_;
  std::vector<Down> down_;  // by node; restart_ns 0: it is up
  // Who is there, and is taken for lost, maybe; the cluster asks for it, too.
  std::shared_ptr<Absences> absences_ = std::make_shared<Absences>();
  std::vector<std::uint64_t> foreign_until_ns_;  // by node; 0: it speaks as all do
  std::uint64_t began_ns_ = 0;
  std::uint64_t blow_ns_ = 0;
  std::uint64_t part_ns_ = 0;
  std::uint32_t seen_epoch_ = 0;
  std::uint64_t overrun_ns_ = 0;   // 0: never, or done
  std::uint64_t drain_ns_ = 0;     // the same
  std::uint64_t add_ns_ = 0;       // the same
  std::uint64_t silence_ns_ = 0;   // the same
  std::uint64_t withhold_ns_ = 0;  // the same
  std::uint64_t alarm_ns_ = 0;     // the same
  std::uint64_t propose_ns_ = 0;   // what follows is asked for then, or once more; 0: nothing is
  std::optional<cluster::AddNode> added_;
  std::optional<NodeId> leaving_;  // drained, and to be removed
  Withhold withhold_;
  Partitions partitions_;
  FalseAlarm false_alarm_;
  std::optional<Aim> aim_;  // until all its blows have come
  std::uint64_t aimed_ = 0;
  std::optional<AtSwitch> at_switch_;
  bool waits_for_answer_ = false;  // the next blow meets who answered
  int blows_left_;
  bool overruns_again_;
  bool parts_;
  bool alarmed_ = false;  // a false alarm was raised
  // What is to come later finds nobody when this is over.
  std::shared_ptr<NodeFaults*> alive_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_NODE_FAULTS_H_
