#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/cluster/default_memgests.h"
#include "ring/cluster/routing.h"
#include "ring/protocol/hello.h"

namespace ring::sim {
namespace {
constexpr std::uint64_t kReadyNs = 5'000'000'000;
}  // namespace

SimCluster::SimCluster(const ClusterOptions& options)
    : options_(options),
      network_(options.seed, options.fabric),
      random_(options.seed * 2 + 1),
      workload_(&random_),
      versions_(&history_) {}

SimCluster::~SimCluster() {
  for (const std::shared_ptr<SimClient>& client : clients_) client->Close();
  for (const std::shared_ptr<SimNode>& node : nodes_) node->Close();
}

absl::Status SimCluster::Open() {
  // Log entries have checksums; not all that connections of other kinds carry has.
  network_.SetFlipFilter([](absl::string_view private_data) {
    protocol::HelloPrefix prefix;
    if (private_data.size() < sizeof(prefix)) return false;
    std::memcpy(&prefix, private_data.data(), sizeof(prefix));
    return prefix.kind == protocol::HelloKind::kLog;
  });
  config_.cluster_name = "sim";
  config_.s = options_.s;
  config_.d = options_.d;
  // Names that stay: a later start of a node is found where the former one was.
  config_.transport = node::Transport::kShm;
  for (int i = 0; i < options_.node_count; ++i) {
    node::NodeEntry entry;
    entry.name = absl::StrCat("n", i);
    entry.host = "sim";
    entry.shm = entry.name;
    seeds_.push_back(absl::StrCat("shm:", entry.shm));
    config_.nodes.push_back(entry);
  }
  config_.memgests = options_.memgests;
  if (config_.memgests.empty()) {
    config_.memgests = cluster::DefaultMemgests(config_.s, config_.d);
    config_.default_memgest = "REP3";
  } else {
    config_.default_memgest = config_.memgests.back().name;
  }
  if (options_.weak_default) config_.default_memgest = "REP1";
  for (protocol::MemgestDescriptor& memgest : config_.memgests)
    memgest.block_size = options_.block_size;
  config_.ring_size = node::kRingSizeMin;
  config_.arena_size_max = std::uint64_t{4} << 30;
  config_.client_max = 64;
  config_.encode = options_.encode;
  config_.fault_injection = options_.degraded_one_in != 0;
  config_.recovery_rate = options_.recovery_rate;
  config_.control.fail_over = options_.fail_over;
  config_.control.heartbeat_ms = options_.heartbeat_ms;
  config_.control.detect_ms = options_.detect_ms;
  config_.control.lease_ms = options_.lease_ms;
  config_.control.fence = options_.fence;
  config_.control.overrun = options_.overrun;
  for (int i = 0; options_.voters_keep && i < config_.voter_count(); ++i) {
    disks_.push_back(
        std::make_unique<SimDisk>(&network_, options_.seed ^ static_cast<std::uint64_t>(i) << 32));
  }
  for (int i = 0; i < options_.node_count; ++i) {
    RING_ASSIGN_OR_RETURN(std::shared_ptr<SimNode> node,
                          OpenNode(NodeId(static_cast<std::uint32_t>(i))));
    nodes_.push_back(std::move(node));
  }
  for (const std::shared_ptr<SimNode>& node : nodes_) node->Begin(FirstView(*node));
  view_ = nodes_[0]->node().view();
  WatchRoles();
  admin_ = std::make_unique<SimAdmin>(&nodes_, 0);
  const bool ready = RunUntil(network_.now_ns() + kReadyNs, [&] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const std::shared_ptr<SimNode>& node) { return node->node().ready(); });
  });
  WatchRoles();
  if (ready) return absl::OkStatus();
  std::string missing;
  for (const std::shared_ptr<SimNode>& node : nodes_)
    absl::StrAppend(&missing, node->node().Missing(), " ");
  return absl::DeadlineExceededError(absl::StrCat("not ready: ", missing));
}

absl::StatusOr<std::shared_ptr<SimNode>> SimCluster::OpenNode(NodeId id) {
  return SimNode::Open(&network_, config_, id, &random_, DiskOf(id));
}

SimDisk* SimCluster::DiskOf(NodeId id) {
  return id.value() < disks_.size() ? disks_[id.value()].get() : nullptr;
}

// What a process of its own knows: itself, and where the others can be found.
std::shared_ptr<const cluster::View> SimCluster::FirstView(const SimNode& node) const {
  auto view = std::make_shared<cluster::View>(config_.InitialView());
  for (std::size_t i = 0; i < view->nodes.size(); ++i) {
    view->nodes[i].host = "sim";
    view->nodes[i].shm_address = seeds_[i];
  }
  const cluster::NodeInfo& self = node.info();
  view->nodes[self.id.value()] = self;
  return view;
}

absl::Status SimCluster::AddClient(std::size_t window, std::uint64_t operations, bool sleeps) {
  SimClientOptions options;
  options.process = static_cast<int>(clients_.size());
  options.seeds = seeds_;
  options.window = window;
  options.operations = operations;
  options.sleeps = sleeps;
  options.deadline_ns = options_.deadline_ns;
  options.degraded_one_in = options_.degraded_one_in;
  SeededRandom reads(options_.seed ^ static_cast<std::uint64_t>(options.process) << 32 ^ 0x4ead);
  options.only_gets = options_.readers_one_in != 0 && options.process != 0 &&
                      reads.Below(options_.readers_one_in) == 0;
  if (options.only_gets) options.operations = ~std::uint64_t{0};
  RING_ASSIGN_OR_RETURN(std::shared_ptr<SimClient> client,
                        SimClient::Start(&network_, &random_, &workload_, this, options));
  clients_.push_back(std::move(client));
  return absl::OkStatus();
}

bool SimCluster::RunUntil(std::uint64_t deadline_ns, absl::FunctionRef<bool()> condition,
                          std::uint64_t step_ns) {
  rdma::sim::EventQueue& events = network_.events();
  while (!condition()) {
    if (events.now_ns() >= deadline_ns) return false;
    const std::uint64_t until_ns = std::min(events.now_ns() + step_ns, deadline_ns);
    while (!events.empty() && events.next_ns() <= until_ns) events.RunNext();
    events.PassTo(until_ns);
    LookAtReplicas();
  }
  return true;
}

void SimCluster::LookAtReplicas() {
  for (const std::shared_ptr<SimNode>& node : nodes_) {
    if (!node->up()) continue;
    const node::Membership& membership = node->node().membership();
    if (membership.replica() != nullptr)
      agreement_.Look(membership.replica()->raft(), *membership.state().view());
  }
}

const cluster::View& SimCluster::view() {
  WatchRoles();
  return *view_;
}

void SimCluster::WatchRoles() {
  const std::shared_ptr<const cluster::View> before = view_;
  for (const std::shared_ptr<SimNode>& node : nodes_) {
    if (!node->up()) continue;
    const std::shared_ptr<const cluster::View>& known = node->node().membership().state().view();
    if (known->epoch > view_->epoch) view_ = known;
  }
  if (view_ == before && !coordinators_.empty()) return;
  const bool first = coordinators_.empty();
  if (!first) {
    CountReturns(*before, *view_);
    NoteMissed(*before, *view_);
  }
  const cluster::Routing routing(view_->s, view_->d);
  coordinators_.resize(static_cast<std::size_t>(view_->group_count() * view_->s));
  tenures_.resize(coordinators_.size());
  for (std::size_t at = 0; at < coordinators_.size(); ++at) {
    const GroupId group(static_cast<std::uint16_t>(at / static_cast<std::size_t>(view_->s)));
    const ShardId shard(static_cast<std::uint16_t>(at % static_cast<std::size_t>(view_->s)));
    const cluster::GroupView& roles = view_->groups[group.value()];
    const cluster::Holder now{roles.roles[shard.value()], roles.incarnations[shard.value()]};
    const cluster::Holder then = std::exchange(coordinators_[at], now);
    tenures_[at] += then == now ? 0 : 1;
    if (first || then == now || then.incarnation == Incarnation()) continue;
    Note(absl::StrCat("g", group.value(), "/s", shard.value(), " epoch ", roles.epoch.value(),
                      " is given to node ", static_cast<int>(now.node.value())));
    const auto concerned = [&](int key) {
      return routing.OfKey(KeyName(key)) == cluster::Place{group, shard};
    };
    versions_.LoseUnreliable(concerned, roles.epoch);
    NoteLoss(concerned, roles.epoch, /*everything=*/false);
  }
}

// A role that somebody had who is up as before is another's: nothing else takes it from such a one.
void SimCluster::CountReturns(const cluster::View& before, const cluster::View& now) {
  for (std::size_t g = 0; g < before.groups.size(); ++g) {
    const cluster::GroupView& then = before.groups[g];
    const cluster::GroupView& group = now.groups[g];
    for (std::size_t x = 0; x < then.roles.size(); ++x) {
      const cluster::Holder holder{group.roles[x], group.incarnations[x]};
      const bool another = then.roles[x] != cluster::kNoNode && then.roles[x] != holder.node;
      if (!another || holder.node == cluster::kNoNode) continue;
      const cluster::NodeInfo& gave_way = now.nodes[then.roles[x].value()];
      const bool up = gave_way.status == cluster::NodeStatus::kUp &&
                      gave_way.incarnation == then.incarnations[x];
      const auto held = [&](const cluster::ShardView& shard) {
        return x < shard.normal.holders.size() && shard.normal.holders[x] == holder;
      };
      if (!up || std::none_of(then.shards.begin(), then.shards.end(), held)) continue;
      network_.faults().Count(rdma::sim::FaultClass::kF5Pause, "roles given back");
      Note(absl::StrCat("g", g, " epoch ", group.epoch.value(), ": role ", x, " goes from node ",
                        gave_way.id.value(), " back to node ", holder.node.value()));
    }
  }
}

// Faults that are shorter than detection one by one, and together are not: who lives is missed, and
// its roles go to others, though no plan counted it as lost.
void SimCluster::NoteMissed(const cluster::View& before, const cluster::View& now) {
  for (std::size_t g = 0; g < before.groups.size(); ++g) {
    const cluster::GroupView& then = before.groups[g];
    for (std::size_t x = 0; x < then.roles.size(); ++x) {
      const cluster::Holder holder{then.roles[x], then.incarnations[x]};
      if (now.groups[g].roles[x] == holder.node || !Alive(holder)) continue;
      const cluster::NodeStatus status = now.nodes[holder.node.value()].status;
      const bool drained =
          status == cluster::NodeStatus::kDraining || status == cluster::NodeStatus::kRemoved;
      if (!is_away_ || drained || false_alarm_ || is_away_(holder.node)) continue;
      Note(absl::StrCat("node ", holder.node.value(), " is missed, though it lives"));
      NoteFalseAlarm();
    }
  }
}

void SimCluster::NoteLoss(absl::FunctionRef<bool(int key)> concerned, Epoch epoch,
                          bool everything) {
  Loss loss{network_.now_ns(), epoch, {}, everything};
  for (int key = 0; key < workload_.key_count(); ++key) {
    if (concerned(key)) loss.keys.push_back(key);
  }
  if (!loss.keys.empty()) history_.AddLoss(std::move(loss));
}

void SimCluster::Note(absl::string_view what) {
  story_.push_back(absl::StrCat(network_.now_ns() / 1000, " us: ", what));
}

void SimCluster::CrashNode(NodeId id) {
  Note(absl::StrCat("node ", id.value(), " crashes"));
  const consensus::Replica* const replica = nodes_[id.value()]->node().membership().replica();
  if (replica != nullptr) agreement_.OnCrash(replica->raft().id());
  nodes_[id.value()]->Crash();
}

void SimCluster::Overrun() {
  overran_ = true;
  // E8: a shard that lost too much stops, and nobody is told anything of it.
  if (options_.overrun == cluster::OverrunPolicy::kStop) return;
  const cluster::View& view = this->view();
  const cluster::Routing routing(view.s, view.d);
  const auto next_epoch = [&](GroupId group) {
    return Epoch(view.groups[group.value()].epoch.value() + 1);
  };
  versions_.LoseEverything([&](int key) { return next_epoch(routing.OfKey(KeyName(key)).group); });
  for (std::size_t i = 0; i < view.groups.size(); ++i) {
    const GroupId group(static_cast<std::uint16_t>(i));
    NoteLoss([&](int key) { return routing.OfKey(KeyName(key)).group == group; }, next_epoch(group),
             /*everything=*/true);
  }
}

void SimCluster::NoteAccepted(const cluster::StoppedShard& seen) {
  Note(absl::StrCat("g", seen.group.value(), "/s", seen.shard.value(), " epoch ",
                    seen.epoch.value(), " may go on without ", seen.lost.size(), " memgests"));
  const cluster::Routing routing(view_->s, view_->d);
  std::set<int> given_up;
  for (const Operation& op : history_.operations()) {
    const bool there = std::any_of(seen.lost.begin(), seen.lost.end(),
                                   [&op](MemgestId lost) { return op.MayWriteInto(lost); });
    if (there && routing.OfKey(KeyName(op.key)) == cluster::Place{seen.group, seen.shard})
      given_up.insert(op.key);
  }
  const auto concerned = [&given_up](int key) { return given_up.contains(key); };
  versions_.LoseAccepted(concerned, seen.epoch);
  NoteLoss(concerned, seen.epoch, /*everything=*/true);
}

void SimCluster::NoteForcedDelete(MemgestId memgest) {
  forced_.push_back(memgest);
  std::set<int> there;
  for (const Operation& op : history_.operations()) {
    if (op.MayWriteInto(memgest)) there.insert(op.key);
  }
  for (const int key : there) NoteForcedDeleteOf(key, memgest);
}

void SimCluster::NoteForcedDeleteOf(int key, MemgestId memgest) {
  Operation op;
  op.process = kOperator;
  op.kind = OpKind::kDelete;
  op.key = key;
  op.memgest = memgest;
  op.result = OpResult::kUnknown;
  op.invoke_ns = network_.now_ns();
  Invoke(std::move(op));
}

absl::Status SimCluster::RestartNode(NodeId id) {
  RING_ASSIGN_OR_RETURN(std::shared_ptr<SimNode> node, OpenNode(id));
  network_.TakePlaceOf(nodes_[id.value()]->host(), node->host());
  Note(absl::StrCat("node ", id.value(), " starts again"));
  node->Begin(FirstView(*node));
  nodes_[id.value()] = std::move(node);
  return absl::OkStatus();
}

absl::StatusOr<cluster::AddNode> SimCluster::StartAddedNode() {
  const NodeId id(static_cast<std::uint32_t>(nodes_.size()));
  node::NodeEntry entry = config_.nodes.back();
  entry.name = entry.shm = absl::StrCat("n", id.value());
  node::NodeConfig config = config_;
  config.nodes.push_back(entry);
  ++config.added_count;
  RING_ASSIGN_OR_RETURN(std::shared_ptr<SimNode> node,
                        SimNode::Open(&network_, config, id, &random_));
  config_ = std::move(config);
  seeds_.push_back(absl::StrCat("shm:", entry.shm));
  node->Begin(FirstView(*node));
  nodes_.push_back(std::move(node));
  Note(absl::StrCat("node ", id.value(), " is added"));
  cluster::AddNode command;
  command.info.name = entry.name;
  command.info.shm_address = seeds_.back();
  return command;
}

absl::StatusOr<NodeId> SimCluster::AddNode() {
  RING_ASSIGN_OR_RETURN(const cluster::AddNode command, StartAddedNode());
  // Shared: the answer may come when nobody waits for it any more.
  auto result = std::make_shared<std::optional<absl::StatusOr<cluster::ClusterResult>>>();
  nodes_[0]->node().membership().Propose(
      command,
      [result](const absl::StatusOr<cluster::ClusterResult>& outcome) { *result = outcome; });
  nodes_[0]->Touch();
  if (!RunUntil(network_.now_ns() + kReadyNs, [&result] { return result->has_value(); }))
    return absl::DeadlineExceededError("nobody agreed upon the added node");
  RING_RETURN_IF_ERROR((*result)->status());
  return (**result)->node;
}

bool SimCluster::Alive(const cluster::Holder& holder) const {
  if (holder.node == cluster::kNoNode) return false;
  const SimNode& node = *nodes_[holder.node.value()];
  return node.up() && node.info().incarnation == holder.incarnation;
}

bool SimCluster::Crashed(int process) const {
  return !clients_[static_cast<std::size_t>(process)]->up();
}

std::size_t SimCluster::Invoke(Operation op) {
  network_.Trace(std::uint64_t{1} << 63 | static_cast<std::uint64_t>(op.kind),
                 static_cast<std::uint64_t>(op.process), static_cast<std::uint64_t>(op.key));
  WatchRoles();
  const protocol::MemgestDescriptor* const asked =
      view_->FindMemgest(op.memgest.value() == 0 ? view_->default_memgest : op.memgest);
  if (op.mutates() && asked != nullptr) op.tolerates = asked->FailuresTolerated();
  const std::size_t at = history_.Add(std::move(op));
  versions_.OnInvoke(at);
  // Coordinators that have not heard of it yet take writes, and let go of these, too.
  for (const MemgestId memgest : forced_) {
    if (history_[at].MayWriteInto(memgest)) NoteForcedDeleteOf(history_[at].key, memgest);
  }
  return at;
}

void SimCluster::Return(std::size_t at, const Operation& op) {
  network_.Trace(std::uint64_t{3} << 62 | static_cast<std::uint64_t>(op.result), at,
                 op.version.bits() ^ op.value);
  history_[at] = op;
  DoubtRepeated(at);
  const protocol::MemgestDescriptor* const memgest = view().FindMemgest(op.memgest);
  if (memgest != nullptr) {
    history_[at].memgest_name = memgest->name;
    history_[at].tolerates = memgest->FailuresTolerated();
  }
  versions_.OnReturn(at, memgest != nullptr && memgest->FailuresTolerated() >= 1);
  if (on_answer_) on_answer_(history_[at]);
}

void SimCluster::Complain(Violation violation) {
  constexpr std::size_t kEnough = 50;
  if (violations_.size() < kEnough) violations_.push_back(std::move(violation));
}

}  // namespace ring::sim
