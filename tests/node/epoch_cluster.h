// tests/node/epoch_cluster.h — a cluster in this process whose membership moves.
//
// What:      Nodes on one reactor of the test's own, and one replicated state machine that they all
//            share: what a node proposes is applied between turns, and every node sees the view.
// Shape:     Kill ends a node with its memory, Fail tells the state machine, Restart brings it back
//            empty.
// Threads:   the reactor has one; the test asks it to run what touches a node.
// Errors:    what a command is refused with passes unchanged; waits give kDeadlineExceeded and say
//            for what.
#ifndef RING_TESTS_NODE_EPOCH_CLUSTER_H_
#define RING_TESTS_NODE_EPOCH_CLUSTER_H_

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "api/client.h"
#include "ring/base/boot_clock.h"
#include "ring/base/random.h"
#include "ring/base/status.h"
#include "ring/cluster/cluster_state.h"
#include "ring/cluster/routing.h"
#include "ring/node/host.h"
#include "ring/node/node.h"
#include "ring/node/reactor.h"
#include "tests/node/run_on_reactor.h"
#include "tests/support/await.h"

namespace ring::node::testing {

class EpochCluster {
 public:
  ~EpochCluster() {
    if (!thread_.joinable()) return;
    reactor_->Stop();
    thread_.join();
  }

  // change: of the configuration, before anything is opened.
  absl::Status Start(std::size_t spare_count, const std::function<void(NodeConfig*)>& change = {}) {
    config_ = EmbeddedConfig();
    if (change) change(&config_);
    config_.nodes.resize(static_cast<std::size_t>(config_.s + config_.d) + spare_count,
                         config_.nodes.back());
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      config_.nodes[i].name = absl::StrCat("n", i);
      config_.nodes[i].shm.clear();
      config_.nodes[i].data.clear();
    }
    ReactorOptions options;
    options.clock = &clock_;
    reactor_ = std::make_unique<Reactor>(options);
    auto opened = std::make_shared<std::promise<absl::Status>>();
    // Nodes belong to the thread that opens them.
    thread_ = std::thread([this, opened] {
      absl::Status status;
      cluster::View view = config_.InitialView();
      view.fail_over = true;
      state_.emplace(std::move(view));
      for (std::uint32_t i = 0; i < config_.nodes.size() && status.ok(); ++i)
        status = Open(NodeId(i));
      opened->set_value(status);
      if (status.ok()) reactor_->Run();
      reactor_->DropNodes();
    });
    RING_RETURN_IF_ERROR(opened->get_future().get());
    return WaitServing();
  }

  // On the nodes' thread; waits for it.
  void Run(const std::function<void()>& call) { RunOn(*reactor_, call); }
  // Within Run; null: it was killed.
  Node* node(NodeId id) {
    for (const std::unique_ptr<Node>& node : reactor_->nodes()) {
      if (node->id() == id) return node.get();
    }
    return nullptr;
  }
  const cluster::View& view() { return *state_->view(); }
  // Outside of Run: the next command takes view() away.
  std::shared_ptr<const cluster::View> PresentView() {
    std::shared_ptr<const cluster::View> view;
    Run([&] { view = state_->view(); });
    return view;
  }
  cluster::Place PlaceOf(absl::string_view key) const {
    return cluster::Routing(config_.s, config_.d).OfKey(key);
  }
  // Outside of Run.
  NodeId OwnerOf(absl::string_view key) {
    const cluster::Place place = PlaceOf(key);
    return PresentView()->Coordinator(place.group, place.shard);
  }

  void Kill(NodeId id) {
    Run([&] { reactor_->DropNode(id); });
  }
  // From now on the first proposal of each new epoch gets lost.
  void LoseFirstProposals() {
    Run([&] { loses_first_ = true; });
  }
  // As long as it is so, all of them are.
  void LoseEpochs(bool lose) {
    Run([&] { loses_epochs_ = lose; });
  }
  // As long as it is so, no shard becomes Normal, or not this one of any group.
  void LoseNormals(bool lose, std::optional<ShardId> only = std::nullopt) {
    Run([&] {
      loses_normals_ = lose;
      loses_normals_of_ = only;
    });
  }
  // As long as it is so, an epoch's first Normal record of a shard is its last.
  void LoseFurtherNormals(bool lose) {
    Run([&] { loses_further_normals_ = lose; });
  }
  // As long as it is so, Normal records wait on their way; then they come, in their order.
  void HoldNormals(bool hold) {
    Run([&] {
      holds_normals_ = hold;
      if (hold) return;
      for (const cluster::SetNormal& command : std::exchange(held_normals_, {}))
        ApplyHere(command).IgnoreError();
    });
  }
  // As long as it is so, no node hears of what is agreed upon; then all do, of the last view alone.
  void WithholdViews(bool withhold) {
    Run([&] {
      withholds_views_ = withhold;
      if (withhold) return;
      for (const std::unique_ptr<Node>& node : reactor_->nodes()) node->ApplyView(state_->view());
    });
  }
  // From now on the epoch of each group ends so many times with a record that names who joined.
  void EndEpochsThatName(int count) {
    Run([&] { ends_.assign(state_->view()->groups.size(), count); });
  }
  // A start that is there registers once more, as one does that was only silent.
  absl::Status RegisterAgain(NodeId id) {
    cluster::RegisterNode command;
    Run([&] { command.info = node(id)->info(); });
    return Apply(command);
  }
  // REQUIRES: it was killed.
  absl::Status Restart(NodeId id) {
    absl::Status status;
    Run([&] { status = Open(id); });
    return status;
  }
  // Within Run.
  absl::Status ApplyHere(const cluster::ClusterCommand& command) {
    const bool ends = !ends_.empty() && NamesMore(command);
    const cluster::ClusterResult result = state_->Apply(command);
    if (!result.changed || withholds_views_) return result.status;
    for (const std::unique_ptr<Node>& node : reactor_->nodes()) node->ApplyView(state_->view());
    if (ends) EndEpoch(std::get<cluster::SetNormal>(command));
    return result.status;
  }

  absl::Status Apply(const cluster::ClusterCommand& command) {
    absl::Status status;
    Run([&] { status = ApplyHere(command); });
    return status;
  }
  absl::Status Fail(NodeId id) {
    cluster::FailNode command;
    Run([&] { command = {id, state_->view()->nodes[id.value()].incarnation, "killed"}; });
    return Apply(command);
  }

  // Every shard that has a coordinator serves, in the present epoch of its group.
  absl::Status WaitServing() {
    return WaitUntilNothing([this] { return NotServing(); });
  }
  // ... and every holder of a role is named for the replicated memgests it is a member of, with all
  // of their values.
  absl::Status WaitProtected() {
    return WaitUntilNothing([this] {
      const std::string missing = NotServing();
      return missing.empty() ? NotProtected() : missing;
    });
  }
  // Waits until `missing`, which runs on the nodes' thread, has nothing to say.
  absl::Status WaitUntilNothing(const std::function<std::string()>& missing,
                                absl::Duration patience = ring::testing::kPatience) {
    std::string what;
    const auto nothing = [&] {
      Run([&] { what = missing(); });
      return what.empty();
    };
    if (ring::testing::HoldsWithin(patience, nothing)) return absl::OkStatus();
    return absl::DeadlineExceededError(what);
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect() {
    ClientOptions client;
    Run([&] {
      for (const std::unique_ptr<Node>& node : reactor_->nodes())
        client.seeds.push_back(node->info().local_address);
    });
    client.transport = ring::Transport::kLocal;
    return Client::Connect(client);
  }

 private:
  absl::Status Open(NodeId id) {
    NodeOptions options;
    options.config = config_;
    options.id = id;
    options.clock = &clock_;
    options.random = &random_;
    options.host = "here";
    options.propose = [this](const cluster::ClusterCommand& command) {
      if (Loses(command) || Holds(command)) return;
      reactor_->Post([this, command] { ApplyHere(command).IgnoreError(); });
    };
    RING_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, Node::Open(options));
    cluster::RegisterNode command;
    command.info = node->info();
    reactor_->AddNode(std::move(node));
    return ApplyHere(command);
  }

  bool Loses(const cluster::ClusterCommand& command) {
    if (loses_further_normals_ && NamesMore(command)) return true;
    const auto* const normal = std::get_if<cluster::SetNormal>(&command);
    if (loses_normals_ && normal != nullptr &&
        normal->shard == loses_normals_of_.value_or(normal->shard))
      return true;
    const auto* const epoch = std::get_if<cluster::NewEpoch>(&command);
    if (loses_epochs_ && epoch != nullptr) return true;
    return loses_first_ && epoch != nullptr &&
           lost_.insert({epoch->group.value(), epoch->expected.value()}).second;
  }

  bool Holds(const cluster::ClusterCommand& command) {
    const auto* const normal = std::get_if<cluster::SetNormal>(&command);
    if (!holds_normals_ || normal == nullptr) return false;
    held_normals_.push_back(*normal);
    return true;
  }

  bool NamesMore(const cluster::ClusterCommand& command) {
    const auto* const normal = std::get_if<cluster::SetNormal>(&command);
    if (normal == nullptr) return false;
    const cluster::GroupView& group = state_->view()->groups[normal->group.value()];
    return group.shards[normal->shard.value()].normal.epoch == normal->epoch;
  }
  void EndEpoch(const cluster::SetNormal& last) {
    if (ends_[last.group.value()] == 0) return;
    --ends_[last.group.value()];
    const cluster::NewEpoch next{last.group, last.epoch, 0, "a record named who joined"};
    ApplyHere(next).IgnoreError();
  }

  std::string NotServing() {
    const cluster::View& view = *state_->view();
    for (int g = 0; g < view.group_count(); ++g) {
      for (int i = 0; i < view.s; ++i) {
        const GroupId group(static_cast<std::uint16_t>(g));
        const ShardId shard(static_cast<std::uint16_t>(i));
        const NodeId owner = view.Coordinator(group, shard);
        if (owner == cluster::kNoNode) continue;
        Node* const node = this->node(owner);
        CoordinatedShard* const held = node == nullptr ? nullptr : node->FindShard(group, shard);
        if (held == nullptr || !held->serving() || !view.IsNormal(group, shard)) {
          return absl::StrCat("g", g, "/s", i, " of node ", owner.value(), " ",
                              held == nullptr ? "is not held" : held->Missing());
        }
      }
    }
    return "";
  }

  std::string NotProtected() {
    const cluster::View& view = *state_->view();
    for (std::size_t g = 0; g < view.groups.size(); ++g) {
      for (std::size_t i = 0; i < view.groups[g].shards.size(); ++i) {
        const cluster::NormalRecord& normal = view.groups[g].shards[i].normal;
        if (view.groups[g].roles[i] == cluster::kNoNode) continue;
        for (const protocol::MemgestDescriptor& memgest : view.memgests) {
          if (memgest.scheme != protocol::Scheme::kReplicated) continue;
          std::uint32_t wanted = 1u << i;
          const ShardId shard(static_cast<std::uint16_t>(i));
          for (const Role role : memgest.MemberRoles(shard, view.s, view.d)) {
            if (view.groups[g].roles[role.value()] != cluster::kNoNode)
              wanted |= 1u << role.value();
          }
          const cluster::MemgestNormal* const set = normal.Find(memgest.id);
          if (set != nullptr && set->complete == wanted) continue;
          return absl::StrCat("g", g, "/s", i, " ", memgest.name, " wants ", wanted,
                              ", has active=", set == nullptr ? 0 : set->active,
                              " complete=", set == nullptr ? 0 : set->complete);
        }
      }
    }
    return "";
  }

  NodeConfig config_;
  BootClock clock_;
  SeededRandom random_{1};
  std::optional<cluster::ClusterState> state_;
  bool loses_first_ = false;
  bool loses_epochs_ = false;
  bool loses_normals_ = false;
  std::optional<ShardId> loses_normals_of_;
  bool loses_further_normals_ = false;
  bool holds_normals_ = false;
  bool withholds_views_ = false;
  std::vector<cluster::SetNormal> held_normals_;
  std::set<std::pair<std::uint16_t, std::uint32_t>> lost_;  // group, epoch
  std::vector<int> ends_;                                   // by group
  std::unique_ptr<Reactor> reactor_;
  std::thread thread_;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_EPOCH_CLUSTER_H_
