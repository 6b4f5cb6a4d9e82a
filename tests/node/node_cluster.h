// tests/node/node_cluster.h — a cluster in this process whose nodes a test can reach.
//
// What:      Six nodes on one reactor of the test's own; one of them may have its own one, and
//            stand still.
// Threads:   a reactor has one; the test asks it to run what touches a node.
// Errors:    those of the nodes and of the admin port, unchanged. Start gives kDeadlineExceeded for
//            a cluster that does not become ready; AwaitProtected ends as waits of await.h do.
#ifndef RING_TESTS_NODE_NODE_CLUSTER_H_
#define RING_TESTS_NODE_NODE_CLUSTER_H_

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/strip.h"
#include "api/client.h"
#include "ring/base/boot_clock.h"
#include "ring/base/random.h"
#include "ring/base/status.h"
#include "ring/node/control/cluster_admin.h"
#include "ring/node/host.h"
#include "ring/node/node.h"
#include "ring/node/reactor.h"
#include "tests/node/run_on_reactor.h"
#include "tests/support/await.h"
#include "tools/common/protection.h"

namespace ring::node::testing {

class NodeCluster {
 public:
  ~NodeCluster() {
    for (Party* const party : {&main_, &apart_}) {
      if (!party->thread.joinable()) continue;
      party->reactor->Stop();
      party->thread.join();
    }
  }

  // How many nodes said that their card went away.
  int cards_lost() const { return cards_lost_.load(); }

  // Before Start.
  void PutApart(NodeId id) { apart_id_ = id; }
  // Lives until Start has returned.
  void UseDevices(const DeviceFactory* factory) { factory_ = factory; }
  // Nodes take each other for those of other processes.
  void HideLocal() { hides_local_ = true; }
  // The node that is apart does nothing until this is destroyed.
  class Still {
   public:
    explicit Still(Reactor* reactor) {
      auto begun = std::make_shared<std::promise<void>>();
      reactor->Post([begun, end = end_.get_future().share()] {
        begun->set_value();
        end.wait();
      });
      begun->get_future().wait();
    }
    ~Still() { end_.set_value(); }
    Still(const Still&) = delete;
    Still& operator=(const Still&) = delete;

   private:
    std::promise<void> end_;
  };
  Still StandStill() { return Still(apart_.reactor.get()); }

  // fail_over: roles of lost nodes go to the spare. change: of the configuration.
  absl::Status Start(bool fail_over = false, bool fault_injection = false,
                     FenceKind fence = FenceKind::kLease,
                     const std::function<void(NodeConfig*)>& change = {}) {
    RING_RETURN_IF_ERROR(Begin(fail_over, fault_injection, fence, change));
    const auto ready = [this] {
      bool all = true;
      Run([&] {
        for (const std::unique_ptr<Node>& node : reactor_->nodes()) all &= node->ready();
      });
      return all;
    };
    if (ring::testing::HoldsWithin(ring::testing::kPatience, ready)) return absl::OkStatus();
    return absl::DeadlineExceededError("not every node became ready");
  }
  // The same, and the nodes are not waited for.
  absl::Status Begin(bool fail_over, bool fault_injection, FenceKind fence,
                     const std::function<void(NodeConfig*)>& change) {
    NodeConfig config = EmbeddedConfig();
    config.fault_injection = fault_injection;
    config.control.fail_over = fail_over;
    config.control.fence = fence;
    if (change) change(&config);
    config_ = config;
    std::vector<NodeId> together;
    for (std::uint32_t i = 0; i < config_.nodes.size(); ++i) {
      if (NodeId(i) != apart_id_) together.push_back(NodeId(i));
    }
    RING_RETURN_IF_ERROR(Open(&main_, together));
    std::vector<Reactor*> reactors = {main_.reactor.get()};
    if (apart_id_ != cluster::kNoNode) {
      RING_RETURN_IF_ERROR(Open(&apart_, {apart_id_}));
      reactors.push_back(apart_.reactor.get());
    }
    reactor_ = main_.reactor.get();
    cluster::View view = config.InitialView();
    for (Reactor* const reactor : reactors) {
      for (const std::unique_ptr<Node>& node : reactor->nodes())
        view.nodes[node->id().value()] = node->info();
    }
    seed_ = view.nodes[0].local_address;
    for (cluster::NodeInfo& node : view.nodes) {
      listened_.emplace_back(absl::StripPrefix(node.tcp_address, "tcp:"));
      if (hides_local_) node.local_address.clear();
    }
    RING_ASSIGN_OR_RETURN(admin_,
                          StartClusterAdmin(reactors, std::make_shared<const cluster::View>(view)));
    return absl::OkStatus();
  }

  // A node that the configuration does not name, as an operator and its process add it. Gives what
  // the admin service says; the node is not waited for.
  absl::StatusOr<NodeId> Add(const std::string& name) {
    NodeConfig config = config_;
    NodeEntry entry = config.nodes.back();
    entry.name = name;
    entry.shm.clear();
    config.nodes.push_back(entry);
    ++config.added_count;
    const NodeId id(static_cast<std::uint32_t>(config.nodes.size() - 1));
    absl::Status status;
    cluster::NodeInfo info;
    Run([&] {
      status = Open(config, id, &main_);
      if (status.ok()) info = reactor_->nodes().back()->info();
    });
    RING_RETURN_IF_ERROR(status);
    RING_ASSIGN_OR_RETURN(const NodeId given, admin_->AddNode(info));
    Run([&] {
      cluster::View view = config.InitialView();
      for (const std::unique_ptr<Node>& node : reactor_->nodes())
        view.nodes[node->id().value()] = node->info();
      FindNode(id)->ApplyView(std::make_shared<const cluster::View>(std::move(view)));
    });
    config_ = config;
    return given;
  }

  // A node that was killed starts again, with no memory, where it listened by tcp, or at data.
  // factory: of its device. It is not waited for.
  absl::Status Restart(NodeId id, const DeviceFactory* factory, const std::string& data = "") {
    config_.nodes[id.value()].data = data.empty() ? listened_[id.value()] : data;
    factory_ = factory;
    absl::Status status;
    Run([&] {
      status = Open(config_, id, &main_);
      if (!status.ok()) return;
      cluster::View view = config_.InitialView();
      for (const std::unique_ptr<Node>& node : reactor_->nodes()) {
        view.nodes[node->id().value()] = node->info();
        if (hides_local_) view.nodes[node->id().value()].local_address.clear();
      }
      FindNode(id)->ApplyView(std::make_shared<const cluster::View>(std::move(view)));
    });
    return status;
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect() {
    ClientOptions client;
    client.seeds = {seed_};
    client.transport = ring::Transport::kLocal;
    return Client::Connect(client);
  }

  // On the nodes' thread; waits for it.
  void Run(const std::function<void()>& call) { RunOn(*reactor_, call); }
  // Ends a node with its memory. Further nodes keep their ids, not their places.
  void Kill(NodeId id) {
    Run([&] { reactor_->DropNode(id); });
  }
  // Within Run.
  Node& node(std::uint32_t id) { return *reactor_->nodes()[id]; }
  // Within Run; null: it was killed.
  Node* FindNode(NodeId id) {
    for (const std::unique_ptr<Node>& node : reactor_->nodes()) {
      if (node->id() == id) return node.get();
    }
    return nullptr;
  }
  AdminPort& admin() { return *admin_; }
  // Every shard serves, and every memgest survives what it promises; a node may be missing.
  // REQUIRES: ring_tools_protection is linked.
  void AwaitProtected() {
    ring::testing::AwaitOk("protection", [this]() -> absl::Status {
      RING_ASSIGN_OR_RETURN(cluster::Health health, admin_->GetHealth());
      health.warnings.clear();
      const std::string missing = tools::Unprotected(health);
      return missing.empty() ? absl::OkStatus() : absl::UnavailableError(missing);
    });
  }

 private:
  struct Party {
    explicit Party(std::uint64_t seed) : random(seed) {}
    SeededRandom random;
    std::unique_ptr<Reactor> reactor;
    std::thread thread;
  };

  // Nodes belong to the thread that opens them.
  absl::Status Open(Party* party, const std::vector<NodeId>& ids) {
    ReactorOptions options;
    options.clock = &clock_;
    party->reactor = std::make_unique<Reactor>(options);
    auto opened = std::make_shared<std::promise<absl::Status>>();
    party->thread = std::thread([this, party, ids, opened] {
      absl::Status status;
      for (const NodeId id : ids) status.Update(Open(config_, id, party));
      opened->set_value(status);
      if (status.ok()) party->reactor->Run();
      party->reactor->DropNodes();
    });
    return opened->get_future().get();
  }
  absl::Status Open(const NodeConfig& config, NodeId id, Party* party) {
    NodeOptions options;
    options.config = config;
    options.id = id;
    options.clock = &clock_;
    options.random = &party->random;
    options.host = "here";
    options.open_device = factory_;
    options.die = [party](NodeId dying) {
      party->reactor->Post([party, dying] { party->reactor->DropNode(dying); });
    };
    options.card_lost = [this](NodeId, const absl::Status&) { ++cards_lost_; };
    RING_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, Node::Open(options));
    party->reactor->AddNode(std::move(node));
    return absl::OkStatus();
  }

  NodeConfig config_;
  BootClock clock_;
  std::atomic<int> cards_lost_{0};
  NodeId apart_id_ = cluster::kNoNode;
  const DeviceFactory* factory_ = nullptr;
  bool hides_local_ = false;
  std::vector<std::string> listened_;  // where nodes of the file did at first, HOST:PORT
  // Two clusters of one process have other starts of their nodes.
  static std::uint64_t NextSeed() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }
  Party main_{NextSeed()};
  Party apart_{NextSeed()};
  Reactor* reactor_ = nullptr;  // the main one
  std::unique_ptr<AdminPort> admin_;
  std::string seed_;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_NODE_CLUSTER_H_
