// tests/sim/sim_cluster.h — a whole cluster with its clients, on one simulated network.
//
// What:      SimCluster opens nodes, clients and an operator, and lets time pass; nodes crash and
//            start again. What is done to them is the business of a run (sim_run.h) or of a test.
// Shape:     s = 3, d = 2 and four spares, the paper's seven memgests, unless the options say else.
// Ownership: owns everything.
// Threads:   one.
// Errors:    Open: a status that names the node.
#ifndef RING_TESTS_SIM_SIM_CLUSTER_H_
#define RING_TESTS_SIM_SIM_CLUSTER_H_

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "rdma/sim/sim_network.h"
#include "ring/cluster/health_summary.h"
#include "tests/sim/checkers/agreement_checker.h"
#include "tests/sim/checkers/version_checker.h"
#include "tests/sim/damage_model.h"
#include "tests/sim/history.h"
#include "tests/sim/sim_admin.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/workload.h"

namespace ring::sim {

// Nothing that is injected keeps an operation so long.
inline constexpr std::uint64_t kDeadlineLongNs = 20'000'000'000;

struct ClusterOptions {
  std::uint64_t seed = 1;
  rdma::sim::SimOptions fabric;
  int node_count = 9;
  int s = 3;
  int d = 2;
  std::uint32_t block_size = 64 * 1024;
  std::uint64_t deadline_ns = kDeadlineLongNs;  // of the clients' operations
  bool fail_over = true;
  std::uint32_t heartbeat_ms = 25;
  std::uint32_t detect_ms = 150;
  std::uint32_t lease_ms = 100;
  node::FenceKind fence = node::FenceKind::kLease;
  node::EncodePath encode = node::EncodePath::kAuto;
  std::uint64_t degraded_one_in = 0;  // of the gets; not 0: nodes take faults
  std::uint64_t readers_one_in = 0;   // of the clients: they only get
  std::uint64_t recovery_rate = node::NodeConfig().recovery_rate;
  cluster::OverrunPolicy overrun = cluster::OverrunPolicy::kStop;
  std::vector<protocol::MemgestDescriptor> memgests;  // none: the paper's seven
  bool weak_default = false;  // REP1 is the default memgest, and any may become it; else f >= 1
  // Copies of deletes that were answered come beyond their tenure, too (F7).
  bool copies_deletes = false;
  // A voter that starts again has its term, vote and log, unless its disk was lost. Else each start
  // is another server.
  bool voters_keep = false;
};

class SimCluster final : public Recorder {
 public:
  explicit SimCluster(const ClusterOptions& options);
  ~SimCluster() override;

  // Opens the nodes and waits until they serve.
  absl::Status Open();
  absl::Status AddClient(std::size_t window, std::uint64_t operations, bool sleeps);
  // Lets time pass until the condition holds, which is looked at every `step_ns`. False: it did not
  // by then.
  bool RunUntil(std::uint64_t deadline_ns, absl::FunctionRef<bool()> condition,
                std::uint64_t step_ns = 1'000'000);

  rdma::sim::SimNetwork& network() { return network_; }
  Random& random() { return random_; }
  Workload& workload() { return workload_; }
  std::vector<std::shared_ptr<SimNode>>& nodes() { return nodes_; }
  std::vector<std::shared_ptr<SimClient>>& clients() { return clients_; }
  bool Crashed(int process) const;
  // With its memory, and its part in the consensus if that is kept nowhere. REQUIRES: it is up.
  void CrashNode(NodeId id);
  // What the node's part in the consensus is kept on; null: nothing.
  SimDisk* DiskOf(NodeId id);
  std::vector<std::unique_ptr<SimDisk>>& disks() { return disks_; }
  // Another start of a node that crashed, with nothing but its disk.
  absl::Status RestartNode(NodeId id);
  // A node that the configuration does not name: its process starts, and an operator's word for it
  // is agreed upon. It joins meanwhile.
  absl::StatusOr<NodeId> AddNode();
  // Whether this start of the node is there.
  bool Alive(const cluster::Holder& holder) const;
  // The newest that a node knows.
  const cluster::View& view();
  // For people: what befell the cluster, a line each.
  void Note(absl::string_view what);
  const std::vector<std::string>& story() const { return story_; }
  SimAdmin& admin() { return *admin_; }
  const History& history() const { return history_; }
  VersionChecker& versions() { return versions_; }
  const AgreementChecker& agreement() const { return agreement_; }
  std::vector<Violation>& violations() { return violations_; }

  // Tells the checkers which shards lost their coordinator's memory since (G6). Before anything is
  // concluded from an answer.
  void WatchRoles();

  // Is told of every answer; empty: nobody.
  void set_on_answer(std::function<void(const Operation&)> call) { on_answer_ = std::move(call); }

  std::size_t Invoke(Operation op) override;
  void Return(std::size_t at, const Operation& op) override;
  const Operation& Recorded(std::size_t at) const override { return history_.operations()[at]; }
  void Complain(Violation violation) override;
  void Sent(SentRequest request) override;
  // The newest request that was sent so long ago, if a network that keeps copies could bring it
  // once more, and the protocol stand it; null: there is none. What its client is told of it from
  // now on may be the doing of the copy.
  const SentRequest* CopyToSend(std::uint64_t late_ns);
  NodeId OwnerOf(int key);
  const std::string& AddressOf(NodeId node) const { return seeds_[node.value()]; }
  bool MayLose(int key) const override { return overran_ || damage_.Concerns(key, history_); }
  bool overran() const { return overran_; }
  // A bit of the key's newest value turns, where its coordinator has it (F10). False: there is no
  // value; or, without `unsent`, it is not committed, and may not have been sent to all yet.
  bool DamageValue(int key, bool unsent);
  // A bit of a copy of it turns, at one of its memgest's replicas; or of a row of parity, anywhere.
  bool DamageCopy(int key, Random& random);
  bool DamageRow(Random& random);
  const DamageModel& damage() const { return damage_; }
  // Bits of log entries turned on their way: members refuse those, and say so.
  bool EntriesCameDamaged() { return network_.faults().by_kind.contains("F10 in flight"); }
  // Damage that is still there, and that a scrub is to find: a line each.
  std::set<std::string> DamageLeft();
  // Whether a bit of this version turned at this holder; of one that it coordinates, or of a copy.
  bool CameDamaged(const cluster::Holder& holder, cluster::Place place, bool copy,
                   std::uint32_t line, std::uint64_t version) const;
  // An operator lets go of what is in a memgest: each key that may be there is deleted, at some
  // time from now on or never (G10).
  void NoteForcedDelete(MemgestId memgest);
  // Opens the process of a node that the configuration does not name, and lets it begin; somebody
  // has to propose the command then.
  absl::StatusOr<cluster::AddNode> StartAddedNode();
  std::uint64_t seed() const { return options_.seed; }
  bool weak_default() const { return options_.weak_default; }
  // More is lost now than memgests survive (F3). Unless shards go on without it, nothing that was
  // told is forgotten (E8).
  void Overrun();
  // Who saw that the shard stopped, and for what, gives that up (E8). Before the shard hears of it.
  void NoteAccepted(const cluster::StoppedShard& seen);
  // A node is taken for lost that a shard cannot do without. It may stop, and wait for an operator
  // (docs/RECOVERY.md, "Known weaknesses"): then that is as if too much were lost.
  void NoteFalseAlarm() { false_alarm_ = true; }
  bool false_alarm() const { return false_alarm_; }
  // Who is to be missed, if somebody is: no false alarm then. null: nobody is, in any way.
  void set_is_away(std::function<bool(NodeId)> is_away) { is_away_ = std::move(is_away); }

 private:
  struct Damage {  // of a value
    std::string what;
    cluster::Holder holder;
    cluster::Place place;
    bool copy = false;
    std::uint32_t line = 0;
    std::uint64_t version = 0;
  };
  void NoteForcedDeleteOf(int key, MemgestId memgest);
  bool IsLeft(const Damage& damage);
  const memgest::MetadataLine* NewestOf(memgest::LineTable& lines, int key, std::uint32_t* number);
  void LookAtReplicas();
  void CountReturns(const cluster::View& before, const cluster::View& now);
  void NoteMissed(const cluster::View& before, const cluster::View& now);
  // For who judges the history.
  void NoteLoss(absl::FunctionRef<bool(int key)> concerned, Epoch epoch, bool everything);
  absl::StatusOr<std::shared_ptr<SimNode>> OpenNode(NodeId id);
  std::shared_ptr<const cluster::View> FirstView(const SimNode& node) const;

  ClusterOptions options_;
  node::NodeConfig config_;
  rdma::sim::SimNetwork network_;
  SeededRandom random_;  // of what is above the network
  Workload workload_;
  History history_;
  VersionChecker versions_;
  AgreementChecker agreement_;
  std::vector<Violation> violations_;
  std::vector<std::unique_ptr<SimDisk>> disks_;  // of the first nodes
  std::vector<std::shared_ptr<SimNode>> nodes_;
  std::vector<std::shared_ptr<SimClient>> clients_;
  std::unique_ptr<SimAdmin> admin_;
  std::shared_ptr<const cluster::View> view_;  // the newest that was seen
  std::vector<cluster::Holder> coordinators_;  // in view_, by group and shard
  std::vector<std::uint32_t> tenures_;         // how many had been before them
  std::vector<std::string> seeds_;
  std::vector<std::string> story_;
  std::function<void(const Operation&)> on_answer_;
  std::vector<MemgestId> forced_;  // memgests that an operator deletes with what is in them
  // sim_copies.cc
  std::uint32_t TenureOf(int key) const;
  bool MayCopy(const SentRequest& request);
  void DoubtRepeated(std::size_t at);
  std::deque<SentRequest> sent_;    // of the last seconds
  std::set<std::size_t> repeated_;  // operations of which copies were sent before their answer
  bool overran_ = false;
  bool false_alarm_ = false;
  std::function<bool(NodeId)> is_away_;
  DamageModel damage_;
  std::vector<Damage> damages_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_CLUSTER_H_
