#include "tests/sim/node_faults.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "ring/cluster/routing.h"
#include "ring/protocol/hello.h"
#include "tests/sim/survival.h"

namespace ring::sim {
namespace {

using rdma::sim::FaultClass;
constexpr std::uint64_t kUs = FaultOptions::kUs;
constexpr std::uint64_t kMs = FaultOptions::kMs;

}  // namespace

class NodeFaults::Later final : public rdma::sim::EventTarget {
 public:
  Later(std::shared_ptr<NodeFaults*> faults, std::function<void(NodeFaults*)> call)
      : faults_(std::move(faults)), call_(std::move(call)) {}
  void OnEvent(std::uint64_t) override {
    if (*faults_ != nullptr) call_(*faults_);
  }

 private:
  std::shared_ptr<NodeFaults*> faults_;
  std::function<void(NodeFaults*)> call_;
};

NodeFaults::NodeFaults(SimCluster* cluster, Random* random, const FaultOptions& options,
                       const Run& run)
    : options_(options),
      cluster_(cluster),
      random_(random),
      apart_(cluster->seed() ^ 0xadd),
      disks_(cluster->seed() ^ 0xd15c5),
      alarms_(cluster->seed() ^ 0xa1a42),
      withholds_(cluster->seed() ^ 0x3174),
      down_(cluster->nodes().size()),
      foreign_until_ns_(cluster->nodes().size()),
      withhold_(cluster, options),
      partitions_(cluster, random, options),
      false_alarm_(cluster, options),
      blows_left_(
          options.f1_node_max == 0 ? 0 : static_cast<int>(1 + random->Below(options.f1_node_max))),
      overruns_again_(run.accepts && OneIn(apart_, options.f3_again_one_in)),
      parts_(OneIn(*random, options.f6_nodes_run_one_in)),
      alive_(std::make_shared<NodeFaults*>(this)) {
  blow_ns_ = now_ns() + LogUniform(options.f1_first_min_ns, options.f1_first_max_ns);
  part_ns_ = now_ns() + random->Below(options.f6_nodes_first_max_ns);
  if (OneIn(*random, options.f12_drain_run_one_in))
    drain_ns_ = now_ns() + LogUniform(options.f12_drain_min_ns, options.f12_drain_max_ns);
  if (run.zombies) {
    silence_ns_ =
        now_ns() + LogUniform(options.f5_zombie_first_min_ns, options.f5_zombie_first_max_ns);
  }
  if (run.overrun) overrun_ns_ = now_ns() + LogUniform(options.f3_min_ns, options.f3_max_ns);
  if (run.alarm)
    alarm_ns_ = now_ns() + options.f5_alarm_min_ns + alarms_.Below(options.f5_alarm_max_ns);
  if (OneIn(apart_, options.f12_add_run_one_in))
    add_ns_ = now_ns() + options.f12_add_min_ns + apart_.Below(options.f12_add_max_ns);
  if (run.aims) aim_.emplace(cluster);
  if (run.at_switch) {
    at_switch_.emplace(cluster, options, [this](const AtSwitch::Order& order) {
      const auto obey = [order](NodeFaults* faults) { faults->Obey(order); };
      cluster_->network().events().Schedule(now_ns() + order.delay_ns,
                                            std::make_shared<Later>(alive_, obey), 0);
    });
  }
  if (OneIn(withholds_, options.f6_withhold_run_one_in))
    withhold_ns_ = now_ns() + withholds_.Below(2 * options.f6_withhold_mean_ns);
  seen_epoch_ = cluster->view().epoch;
  began_ns_ = now_ns();
  cluster->set_on_answer([this](const Operation& op) { OnAnswer(op); });
  // Either may end first.
  cluster->set_is_away([away = absences_, cluster](NodeId node) {
    return away->IsAway(node, cluster->network().now_ns());
  });
}

NodeFaults::~NodeFaults() { *alive_ = nullptr; }

std::uint64_t NodeFaults::LogUniform(std::uint64_t from_ns, std::uint64_t to_ns) {
  const auto bits = static_cast<std::uint64_t>(absl::bit_width(to_ns / from_ns));
  const std::uint64_t scale = from_ns << random_->Below(bits);
  return std::min(to_ns, scale + random_->Below(scale));
}

void NodeFaults::Act() {
  RestartDue();
  SpeakDue();
  const std::uint32_t epoch = cluster_->view().epoch;
  // Somebody takes over, or is about to serve: the next blow comes soon.
  if (epoch != seen_epoch_ && OneIn(*random_, options_.f1_at_view_one_in)) {
    blow_ns_ = std::min(
        blow_ns_, now_ns() + LogUniform(options_.f1_at_view_min_ns, options_.f1_at_view_max_ns));
  }
  seen_epoch_ = epoch;
  false_alarm_.Act();
  if (alarm_ns_ != 0) return LookForFalseAlarm();
  if (blows_left_ > 0 && now_ns() >= blow_ns_) PlanBlow();
  if (aim_.has_value()) AimBlow();
  if (overrun_ns_ != 0 && now_ns() >= overrun_ns_) Overrun();
  if (drain_ns_ != 0 && now_ns() >= drain_ns_) Drain();
  if (add_ns_ != 0 && now_ns() >= add_ns_) AddNode();
  if (propose_ns_ != 0 && now_ns() >= propose_ns_) {
    ProposeAdded();
    RemoveDrained();
  }
  if (silence_ns_ != 0 && now_ns() >= silence_ns_) {
    silence_ns_ = now_ns() + random_->Below(options_.f5_zombie_next_max_ns);
    Silence(Victim());
  }
  if (withhold_ns_ != 0 && now_ns() >= withhold_ns_) WithholdEntries();
  if (parts_ && now_ns() >= part_ns_) {
    part_ns_ = now_ns() + random_->Below(options_.f6_nodes_next_max_ns);
    Part();
  }
}

void NodeFaults::End() {
  *alive_ = nullptr;
  cluster_->set_on_answer(nullptr);
  blows_left_ = 0;
  waits_for_answer_ = false;
  overrun_ns_ = drain_ns_ = silence_ns_ = alarm_ns_ = add_ns_ = withhold_ns_ = 0;
  false_alarm_.End();
  aim_.reset();
  at_switch_.reset();
  leaving_.reset();
  parts_ = false;
  for (Down& down : down_) down.restart_ns = std::min(down.restart_ns, now_ns());
  RestartDue();
  for (std::uint64_t& until_ns : foreign_until_ns_) until_ns = std::min(until_ns, now_ns());
  SpeakDue();
}

node::Node* NodeFaults::BestInformed() {
  node::Node* best = nullptr;
  std::pair<consensus::Term, consensus::LogIndex> most;
  for (const std::shared_ptr<SimNode>& node : cluster_->nodes()) {
    if (!node->up() || node->node().membership().replica() == nullptr) continue;
    const consensus::RaftLog& log = node->node().membership().replica()->raft().log();
    const std::pair known(log.last_term(), log.last_index());
    if (best != nullptr && known <= most) continue;
    best = &node->node();
    most = known;
  }
  return best;
}

bool NodeFaults::QuorumWithout(const std::set<NodeId>& nodes) {
  node::Node* const informed = BestInformed();
  if (informed == nullptr) return false;
  const consensus::Configuration& now = informed->membership().replica()->configuration();
  std::size_t left = 0;
  for (const std::shared_ptr<SimNode>& node : cluster_->nodes()) {
    if (!node->up() || nodes.contains(node->info().id)) continue;
    if (absences_->IsAway(node->info().id, now_ns())) continue;
    const consensus::Replica* const replica = node->node().membership().replica();
    if (replica != nullptr && now.IsVoter(replica->raft().id())) ++left;
  }
  return 2 * left > now.voters.size();
}

// Who comes back with a longer log than all that are there may have the others follow it.
bool NodeFaults::DisksKnowMore(const consensus::RaftLog& log) {
  const std::pair known(log.last_term(), log.last_index());
  for (std::size_t i = 0; i < cluster_->disks().size(); ++i) {
    if (!cluster_->nodes()[i]->up() && cluster_->disks()[i]->last() > known) return true;
  }
  return false;
}

bool NodeFaults::AllServe() {
  const std::vector<cluster::GroupView>& groups = cluster_->view().groups;
  return std::all_of(groups.begin(), groups.end(), [](const cluster::GroupView& group) {
    return std::all_of(group.shards.begin(), group.shards.end(),
                       [&group](const auto& shard) { return shard.normal.epoch == group.epoch; });
  });
}

// Also what is in a log, and may be agreed upon at any moment, decides. Behind a false alarm
// records name who was missed in roles whose state it dropped, until all serve again.
bool NodeFaults::MayLose(const std::set<NodeId>& nodes, NodeId missed) {
  if (!QuorumWithout(nodes) || (alarmed_ && !AllServe())) return false;
  const auto there = [&](const cluster::Holder& holder) {
    return cluster_->Alive(holder) && !nodes.contains(holder.node) &&
           !absences_->IsAway(holder.node, now_ns());
  };
  const auto returns = [&](const cluster::Holder& holder) {
    return holder.node == missed && cluster_->Alive(holder);
  };
  const auto survives = [&](const cluster::View& view) {
    return SurvivesWith(view, there, returns);
  };
  node::Node* const informed = BestInformed();
  cluster::ClusterState state = informed->membership().state();
  if (!survives(cluster_->view()) || !survives(*state.view())) return false;
  const consensus::Replica& replica = *informed->membership().replica();
  const consensus::RaftLog& log = replica.raft().log();
  if (DisksKnowMore(log)) return false;
  for (consensus::LogIndex i = replica.applied_index() + 1; i <= log.last_index(); ++i) {
    if (log.At(i).kind != consensus::EntryKind::kCommand) continue;
    if (state.Apply(log.At(i).data).changed && !survives(*state.view())) return false;
  }
  return true;
}

NodeId NodeFaults::Victim() {
  const std::size_t count = cluster_->nodes().size();
  // Who has roles is more interesting than who waits for some.
  for (int tries = 0; tries < 3; ++tries) {
    const NodeId node(static_cast<std::uint32_t>(random_->Below(count)));
    if (cluster_->view().HoldsRole(node)) return node;
  }
  return NodeId(static_cast<std::uint32_t>(random_->Below(count)));
}

void NodeFaults::PlanBlow() {
  blow_ns_ = now_ns() + LogUniform(options_.f1_next_min_ns, options_.f1_next_max_ns);
  const NodeId first = Victim();
  if (!MayLose({first})) {
    // Somebody else, or when more is whole.
    blow_ns_ = now_ns() + random_->Below(options_.f1_refused_max_ns);
    return;
  }
  --blows_left_;
  waits_for_answer_ = OneIn(*random_, options_.f1_at_answer_one_in);
  if (waits_for_answer_) return;
  const auto soon = [&] { return now_ns() + random_->Below(options_.f1_aim_max_ns); };
  StrikeAt(soon(), first);
  if (!OneIn(*random_, options_.f2_second_one_in)) return;
  const NodeId second = Victim();
  StrikeAt(soon() + LogUniform(options_.f2_gap_min_ns, options_.f2_gap_max_ns), second);
}

// What was lost before made the step that is waited for: most of these blows are refused, where
// memgests do not survive two.
void NodeFaults::AimBlow() {
  const std::optional<NodeId> victim = aim_->Look();
  if (!victim.has_value() || !MayLose({*victim})) return;
  StrikeAt(now_ns() + LogUniform(options_.f1_at_view_min_ns, options_.f1_at_event_max_ns), *victim);
  ++cluster_->network().faults().by_kind["F1 aimed blows"];
  if (++aimed_ >= options_.f1_at_event_max) aim_.reset();
}

// Whoever it tells something goes by entries that nobody else has, maybe.
void NodeFaults::WithholdEntries() {
  withhold_ns_ = now_ns() + 1 + withholds_.Below(2 * options_.f6_withhold_mean_ns);
  const std::vector<cluster::GroupView>& groups = cluster_->view().groups;
  const cluster::GroupView& group = groups[withholds_.Below(groups.size())];
  const auto shards = static_cast<std::uint64_t>(cluster_->view().s);
  WithholdEntriesOf(group.roles[withholds_.Below(shards)]);
}

void NodeFaults::WithholdEntriesOf(NodeId node) {
  if (node == cluster::kNoNode || !cluster_->nodes()[node.value()]->up() || !MayLose({node}))
    return;
  withhold_.Begin(node, withholds_);
}

void NodeFaults::OnAnswer(const Operation& op) {
  if (withhold_.IsAnswer(op)) {
    const NodeId node = cluster_->OwnerOf(op.key);
    if (MayLose({node})) {
      withhold_.KeepAway();
      ++cluster_->network().faults().by_kind["F1 behind an answer alone"];
      StrikeAt(now_ns(), node);
    }
  }
  if (!waits_for_answer_ || !op.mutates() || op.result != OpResult::kOk) return;
  const cluster::View& view = cluster_->view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(op.key));
  const NodeId owner = view.Coordinator(place.group, place.shard);
  if (owner == cluster::kNoNode) return;
  waits_for_answer_ = false;
  StrikeAt(now_ns(), owner);
}

// A record names somebody who is gone: nobody took over from him in all he had.
bool NodeFaults::SomebodyIsMissing() {
  const cluster::View& view = cluster_->view();
  for (const cluster::GroupView& group : view.groups) {
    for (const cluster::ShardView& shard : group.shards) {
      const std::vector<cluster::Holder>& holders = shard.normal.holders;
      if (std::any_of(holders.begin(), holders.end(), [this](const cluster::Holder& holder) {
            return holder.node != cluster::kNoNode && !cluster_->Alive(holder);
          }))
        return true;
    }
  }
  return false;
}

void NodeFaults::StrikeAt(std::uint64_t at_ns, NodeId node) {
  const auto strike = [node](NodeFaults* faults) { faults->Strike(node); };
  cluster_->network().events().Schedule(at_ns, std::make_shared<Later>(alive_, strike), 0);
}

void NodeFaults::Strike(NodeId node) {
  if (!cluster_->nodes()[node.value()]->up() || !MayLose({node})) return;
  if (SomebodyIsMissing()) cluster_->network().faults().Count(FaultClass::kF2DoubleCrash);
  Crash(node);
}

void NodeFaults::Crash(NodeId node) {
  cluster_->CrashNode(node);
  if (SimDisk* const disk = cluster_->DiskOf(node); disk != nullptr) {
    const bool lost = OneIn(disks_, options_.f1_votes_lost_one_in);
    if (lost) disk->Lose();
    ++cluster_->network().faults().by_kind[lost ? "F1 votes lost" : "F1 votes kept"];
  }
  const std::uint64_t away_ns =
      OneIn(*random_, options_.f4_one_in)
          ? LogUniform(options_.f4_away_min_ns, options_.f4_away_max_ns)
          : options_.f1_away_min_ns + random_->Below(options_.f1_away_more_ns);
  down_[node.value()] = {std::max(now_ns() + away_ns, withhold_.GoneUntilNs(node)),
                         cluster_->view().epoch};
}

// F3: nodes with roles go, more of them than memgests bear.
void NodeFaults::Overrun() {
  std::set<NodeId> lost;
  for (int tries = 0; tries < 20 && lost.size() < options_.f3_nodes; ++tries) {
    const NodeId node = Victim();
    if (!cluster_->nodes()[node.value()]->up()) continue;
    lost.insert(node);
    if (!QuorumWithout(lost)) lost.erase(node);
  }
  const auto there = [&](const cluster::Holder& holder) {
    return cluster_->Alive(holder) && !lost.contains(holder.node);
  };
  if (SurvivesWith(cluster_->view(), there)) return;  // tried again
  const bool again = std::exchange(overruns_again_, false);
  overrun_ns_ = again ? now_ns() + LogUniform(options_.f3_min_ns, options_.f3_max_ns) : 0;
  blows_left_ = 0;
  cluster_->network().faults().Count(FaultClass::kF3BeyondF);
  cluster_->Overrun();
  for (const NodeId node : lost) Crash(node);
}

// Between turns: nothing befalls a node in the midst of one.
void NodeFaults::Obey(const AtSwitch::Order& order) {
  using Deed = AtSwitch::Deed;
  SimNode& node = *cluster_->nodes()[order.node.value()];
  if (!node.up()) return;
  const std::uint64_t soon_ns =
      now_ns() + LogUniform(options_.f2_gap_min_ns, options_.f6_nodes_max_ns);
  switch (order.deed) {
    case Deed::kCrash:
      return Strike(order.node);
    case Deed::kCrashTwo:
      Strike(order.node);
      return StrikeAt(soon_ns, order.other);
    case Deed::kPause:
      return node.paused() ? void() : node.Pause(soon_ns);
    case Deed::kSilence:
      return Silence(order.node);
    case Deed::kWithhold:
      return WithholdEntriesOf(order.node);
    case Deed::kMute:
      cluster_->network().faults().Count(FaultClass::kF6Partition);
      return cluster_->network().Block(node.host(), cluster_->nodes()[order.other.value()]->host(),
                                       soon_ns);
  }
}

// It is there, and nobody hears of it: a loss that is none (docs/GLOSSARY.md, failure).
void NodeFaults::Silence(NodeId id) {
  SimNode& node = *cluster_->nodes()[id.value()];
  if (!node.up()) return;
  const std::set<NodeId> silent = WithAnother(id);
  if (!MayLose(silent)) return;
  const std::uint64_t length_ns = LogUniform(options_.f5_zombie_min_ns, options_.f5_zombie_max_ns);
  // Afterwards it hears what became of it.
  for (const NodeId one : silent) absences_->Add(one, now_ns() + length_ns + 300 * kMs);
  cluster_->Note(absl::StrCat("node ", id.value(), " is silent for us=", length_ns / kUs));
  const bool alone = silent.size() == 1;
  if (partitions_.any() || (alone && random_->Below(2) == 0))
    return node.Pause(now_ns() + length_ns);
  // A leader that stands still, too, does not hear for long that it is none any more.
  for (const NodeId one : silent) {
    SimNode& other = *cluster_->nodes()[one.value()];
    if (one != id && other.node().membership().leads() && apart_.Below(2) == 0)
      other.Pause(now_ns() + apart_.Below(length_ns));
  }
  partitions_.CutOff(silent, length_ns);
}

// Who is cut off and hears the leader, or another voter, hears what is not true any more.
std::set<NodeId> NodeFaults::WithAnother(NodeId id) {
  if (!OneIn(apart_, options_.f6_aside_pair_one_in)) return {id};
  const bool leader = apart_.Below(2) == 0;
  std::vector<NodeId> others;
  for (const std::shared_ptr<SimNode>& node : cluster_->nodes()) {
    if (!node->up() || node->info().id == id) continue;
    const node::Membership& membership = node->node().membership();
    if (leader ? membership.leads() : membership.replica() != nullptr)
      others.push_back(node->info().id);
  }
  if (others.empty()) return {id};
  return {id, others[apart_.Below(others.size())]};
}

void NodeFaults::Part() {
  const bool all = OneIn(*random_, options_.f13_one_in);
  if (partitions_.any()) return;
  if (all) return partitions_.PartAll(random_->Below(options_.f13_max_ns));
  if (OneIn(withholds_, options_.f6_pair_one_in) && PartPair()) return;
  partitions_.Part(LogUniform(options_.f6_nodes_min_ns, options_.f6_nodes_max_ns));
}

// To each of the two the other one is lost, and to nobody else.
bool NodeFaults::PartPair() {
  const NodeId one = Victim();
  const NodeId other = Victim();
  const bool up = cluster_->nodes()[one.value()]->up() && cluster_->nodes()[other.value()]->up();
  if (one == other || !up || !MayLose({one}) || !MayLose({other})) return false;
  const std::uint64_t length_ns = LogUniform(options_.f6_pair_min_ns, options_.f6_pair_max_ns);
  for (const NodeId node : {one, other}) absences_->Add(node, now_ns() + length_ns + 300 * kMs);
  partitions_.PartPair(one, other, length_ns);
  return true;
}

// It comes first, when all is whole, or not at all: where something is missing already, no two may
// be lost like this.
void NodeFaults::LookForFalseAlarm() {
  if (now_ns() < alarm_ns_) return;
  const std::uint64_t within_ns = options_.f5_alarm_within_ns;
  alarm_ns_ = RaiseFalseAlarm() || now_ns() >= began_ns_ + within_ns
                  ? 0
                  : now_ns() + 1 + alarms_.Below(options_.f1_refused_max_ns);
}

// One is lost, and the other is taken for it: neither alone would cost anything, and together they
// do, unless the second has its role back.
bool NodeFaults::RaiseFalseAlarm() {
  constexpr int kTries = 8;
  constexpr std::uint64_t kAbsentNs = 1'500 * kMs;  // by then it was missed, and is back
  const std::size_t count = cluster_->nodes().size();
  for (int tries = 0; tries < kTries; ++tries) {
    const NodeId lost(static_cast<std::uint32_t>(alarms_.Below(count)));
    const NodeId missed(static_cast<std::uint32_t>(alarms_.Below(count)));
    const bool up =
        cluster_->nodes()[lost.value()]->up() && cluster_->nodes()[missed.value()]->up();
    if (lost == missed || !up || MayLose({lost, missed})) continue;
    if (!MayLose({lost}) || !MayLose({missed}) || !MayLose({lost, missed}, missed)) continue;
    absences_->Add(missed, now_ns() + kAbsentNs);
    cluster_->NoteFalseAlarm();
    Crash(lost);
    std::uint64_t& restart_ns = down_[lost.value()].restart_ns;  // not before it is missed (F4)
    restart_ns = std::max(restart_ns, now_ns() + options_.f1_away_min_ns);
    alarmed_ = true;
    false_alarm_.Begin(missed, alarms_);
    return true;
  }
  return false;
}

void NodeFaults::RestartDue() {
  for (std::size_t i = 0; i < down_.size(); ++i) {
    if (down_[i].restart_ns == 0 || now_ns() < down_[i].restart_ns) continue;
    const NodeId node(static_cast<std::uint32_t>(i));
    const bool missed = cluster_->view().nodes[i].status != cluster::NodeStatus::kUp;
    if (!missed) cluster_->network().faults().Count(FaultClass::kF4FastRestart);
    if (!cluster_->RestartNode(node).ok()) continue;  // F11: no memory at present
    down_[i].restart_ns = 0;
    SpeakForeign(node);
  }
}

}  // namespace ring::sim
