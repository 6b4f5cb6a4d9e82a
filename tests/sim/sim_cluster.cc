#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/cluster/default_memgests.h"
#include "ring/cluster/routing.h"

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
  admin_.reset();
  for (const std::shared_ptr<SimClient>& client : clients_) client->Close();
  for (const std::shared_ptr<SimNode>& node : nodes_) node->Close();
}

absl::Status SimCluster::Open() {
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
  for (protocol::MemgestDescriptor& memgest : config_.memgests)
    memgest.block_size = options_.block_size;
  config_.ring_size = node::kRingSizeMin;
  config_.arena_size_max = std::uint64_t{4} << 30;
  config_.client_max = 64;
  config_.encode = options_.encode;
  config_.control.fail_over = options_.fail_over;
  config_.control.fence = options_.fence;
  config_.control.overrun = options_.overrun;
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
  return SimNode::Open(&network_, config_, id, &random_);
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
  const cluster::Routing routing(view_->s, view_->d);
  coordinators_.resize(static_cast<std::size_t>(view_->group_count() * view_->s));
  for (std::size_t at = 0; at < coordinators_.size(); ++at) {
    const GroupId group(static_cast<std::uint16_t>(at / static_cast<std::size_t>(view_->s)));
    const ShardId shard(static_cast<std::uint16_t>(at % static_cast<std::size_t>(view_->s)));
    const cluster::GroupView& roles = view_->groups[group.value()];
    const cluster::Holder now{roles.roles[shard.value()], roles.incarnations[shard.value()]};
    const cluster::Holder then = std::exchange(coordinators_[at], now);
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
  nodes_[id.value()]->Crash();
}

void SimCluster::Overrun() {
  overran_ = true;
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

bool SimCluster::DamageValue(int key) {
  const cluster::View& view = this->view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(key));
  const NodeId owner = view.Coordinator(place.group, place.shard);
  if (owner == cluster::kNoNode || !nodes_[owner.value()]->up()) return false;
  node::CoordinatedShard* const held =
      nodes_[owner.value()]->node().FindShard(place.group, place.shard);
  if (held == nullptr || !held->serving()) return false;
  memgest::LineTable& lines = held->coordinator()->lines();
  const memgest::MetadataLine* newest = nullptr;
  for (std::uint32_t i = 0; i < lines.granule_count() * memgest::kLinesPerGranule; ++i) {
    if (!lines.Has(i) || !lines.KeyEquals(i, KeyName(key))) continue;
    const memgest::MetadataLine& line = lines.line(i);
    if (newest == nullptr || line.version > newest->version) newest = &line;
  }
  constexpr unsigned kNotHere = memgest::kAbsent | memgest::kLarge;
  if (newest == nullptr || newest->value_length == 0 || (newest->flags & kNotHere) != 0)
    return false;
  damaged_ = true;
  network_.faults().Count(rdma::sim::FaultClass::kF10BitFlip);
  std::byte* const value =
      held->coordinator()->FindMemgest(MemgestId(newest->memgest))->heap().At(newest->offset_cells);
  value[random_.Below(newest->value_length)] ^= std::byte{1} << random_.Below(8);
  return true;
}

absl::Status SimCluster::RestartNode(NodeId id) {
  RING_ASSIGN_OR_RETURN(std::shared_ptr<SimNode> node, OpenNode(id));
  Note(absl::StrCat("node ", id.value(), " starts again"));
  node->Begin(FirstView(*node));
  nodes_[id.value()] = std::move(node);
  return absl::OkStatus();
}

absl::StatusOr<NodeId> SimCluster::AddNode() {
  const NodeId id(static_cast<std::uint32_t>(nodes_.size()));
  node::NodeEntry entry = config_.nodes.back();
  entry.name = entry.shm = absl::StrCat("n", id.value());
  config_.nodes.push_back(entry);
  ++config_.added_count;
  seeds_.push_back(absl::StrCat("shm:", entry.shm));
  RING_ASSIGN_OR_RETURN(std::shared_ptr<SimNode> node, OpenNode(id));
  node->Begin(FirstView(*node));
  nodes_.push_back(std::move(node));
  Note(absl::StrCat("node ", id.value(), " is added"));
  cluster::AddNode command;
  command.info.name = entry.name;
  command.info.shm_address = seeds_.back();
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
  return at;
}

void SimCluster::Return(std::size_t at, const Operation& op) {
  network_.Trace(std::uint64_t{3} << 62 | static_cast<std::uint64_t>(op.result), at,
                 op.version.bits() ^ op.value);
  history_[at] = op;
  const protocol::MemgestDescriptor* const memgest = view().FindMemgest(op.memgest);
  if (memgest != nullptr) {
    history_[at].memgest_name = memgest->name;
    history_[at].tolerates = memgest->FailuresTolerated();
  }
  versions_.OnReturn(at, memgest != nullptr && memgest->FailuresTolerated() >= 1);
  if (on_answer_) on_answer_(op);
}

void SimCluster::Complain(Violation violation) {
  constexpr std::size_t kEnough = 50;
  if (violations_.size() < kEnough) violations_.push_back(std::move(violation));
}

}  // namespace ring::sim
