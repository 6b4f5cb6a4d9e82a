// tests/node/node_cluster.h — a cluster in this process whose nodes a test can reach.
//
// What:      Six nodes on one reactor of the test's own.
// Threads:   the reactor has one; the test asks it to run what touches a node.
#ifndef RING_TESTS_NODE_NODE_CLUSTER_H_
#define RING_TESTS_NODE_NODE_CLUSTER_H_

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/client.h"
#include "ring/base/random.h"
#include "ring/base/status.h"
#include "ring/node/cluster_admin.h"
#include "ring/node/host.h"
#include "ring/node/monotonic_clock.h"
#include "ring/node/node.h"
#include "ring/node/reactor.h"

namespace ring::node::testing {

class NodeCluster {
 public:
  ~NodeCluster() {
    if (!thread_.joinable()) return;
    reactor_->Stop();
    thread_.join();
  }

  // fail_over: roles of lost nodes go to the spare.
  absl::Status Start(bool fail_over = false, bool fault_injection = false) {
    NodeConfig config = EmbeddedConfig();
    config.fault_injection = fault_injection;
    config.control.fail_over = fail_over;
    // A machine that is busy with other tests is not a failure that moves roles.
    if (fail_over) config.control.detect_ms = 1000;
    ReactorOptions options;
    options.clock = &clock_;
    reactor_ = std::make_unique<Reactor>(options);
    auto opened = std::make_shared<std::promise<absl::Status>>();
    // Nodes belong to the thread that opens them.
    thread_ = std::thread([this, config, opened] {
      const absl::Status status = Open(config);
      opened->set_value(status);
      if (status.ok()) reactor_->Run();
      reactor_->DropNodes();
    });
    RING_RETURN_IF_ERROR(opened->get_future().get());
    cluster::View view = config.InitialView();
    for (const std::unique_ptr<Node>& node : reactor_->nodes())
      view.nodes[node->id().value()] = node->info();
    RING_ASSIGN_OR_RETURN(
        admin_,
        StartClusterAdmin({reactor_.get()}, std::make_shared<const cluster::View>(view), &clock_));
    seed_ = view.nodes[0].local_address;
    for (bool ready = false; !ready;) {
      Run([&] {
        ready = true;
        for (const std::unique_ptr<Node>& node : reactor_->nodes()) ready &= node->ready();
      });
      std::this_thread::yield();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect() {
    ClientOptions client;
    client.seeds = {seed_};
    client.transport = ring::Transport::kLocal;
    return Client::Connect(client);
  }

  // On the nodes' thread; waits for it.
  void Run(const std::function<void()>& call) {
    // Shared: who is woken may be gone before set_value returns.
    auto done = std::make_shared<std::promise<void>>();
    reactor_->Post([&call, done] {
      call();
      done->set_value();
    });
    done->get_future().wait();
  }
  // Ends a node with its memory. Further nodes keep their ids, not their places.
  void Kill(NodeId id) {
    Run([&] { reactor_->DropNode(id); });
  }
  // Within Run.
  Node& node(std::uint32_t id) { return *reactor_->nodes()[id]; }
  AdminPort& admin() { return *admin_; }

 private:
  absl::Status Open(const NodeConfig& config) {
    for (std::size_t i = 0; i < config.nodes.size(); ++i) {
      NodeOptions options;
      options.config = config;
      options.id = NodeId(static_cast<std::uint32_t>(i));
      options.clock = &clock_;
      options.random = &random_;
      options.host = "here";
      options.die = [this](NodeId id) { reactor_->Post([this, id] { reactor_->DropNode(id); }); };
      RING_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, Node::Open(options));
      reactor_->AddNode(std::move(node));
    }
    return absl::OkStatus();
  }

  MonotonicClock clock_;
  SeededRandom random_{1};
  std::unique_ptr<Reactor> reactor_;
  std::thread thread_;
  std::unique_ptr<AdminPort> admin_;
  std::string seed_;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_NODE_CLUSTER_H_
