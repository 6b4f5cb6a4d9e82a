// tests/node/reactor_fixture.h — a reactor with six nodes and a client, turned by hand.
//
// What:      ReactorFixture: the embedded cluster's nodes on one reactor, and a client core that is
//            connected to all of them. Nothing has a thread: a Turn is a pass of the reactor and a
//            step of the client on the test's clock.
// Threads:   the test's only.
// Errors:    a cluster that does not start, or an operation that does not succeed, fails the test.
#ifndef RING_TESTS_NODE_REACTOR_FIXTURE_H_
#define RING_TESTS_NODE_REACTOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/client_core.h"
#include "api/client_requests.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/random.h"
#include "ring/node/control/cluster_admin.h"
#include "ring/node/host.h"
#include "ring/node/reactor.h"
#include "tests/support/status_matchers.h"

namespace ring::node {

class TestClock final : public Clock {
 public:
  std::uint64_t NowNs() const override { return now_ns; }
  std::uint64_t now_ns = 1'000'000'000;
};

class ReactorFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    NodeConfig config = EmbeddedConfig();
    config.control.fail_over = fail_over_;
    ReactorOptions options;
    options.clock = &clock_;
    reactor_ = std::make_unique<Reactor>(options);
    for (std::size_t i = 0; i < config.nodes.size(); ++i) {
      NodeOptions node;
      node.config = config;
      node.id = NodeId(static_cast<std::uint32_t>(i));
      node.clock = &clock_;
      node.random = &random_;
      node.host = "here";
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Node> opened, Node::Open(node));
      reactor_->AddNode(std::move(opened));
    }
    cluster::View view = config.InitialView();
    for (const std::unique_ptr<Node>& node : reactor_->nodes())
      view.nodes[node->id().value()] = node->info();
    ASSERT_OK_AND_ASSIGN(
        admin_, StartClusterAdmin({reactor_.get()}, std::make_shared<const cluster::View>(view)));
    for (int i = 0; i < 100'000 && !Ready(); ++i) Turn(100'000);
    ASSERT_TRUE(Ready());

    ClientOptions client;
    client.seeds = {view.nodes[0].local_address};
    client.transport = ring::Transport::kLocal;
    rdma::SoftDeviceOptions device;
    device.clock = &clock_;
    api::ClientEnvironment environment;
    environment.clock = &clock_;
    environment.random = &random_;
    ASSERT_OK_AND_ASSIGN(environment.device, rdma::OpenSoftDevice(device));
    ASSERT_OK_AND_ASSIGN(core_, api::ClientCore::Start(client, std::move(environment)));
    for (int i = 0; i < 100'000 && !core_->connected(); ++i) Turn(100'000);
    ASSERT_TRUE(core_->connected());
    // Every node is connected to once it was asked for something.
    for (int i = 0; i < 64; ++i) Await(Submit(absl::StrCat("warm", i), "x"));
    Settle();
  }
  void TearDown() override {
    core_.reset();
    if (reactor_ != nullptr) reactor_->DropNodes();
  }

  bool Ready() const {
    return std::all_of(reactor_->nodes().begin(), reactor_->nodes().end(),
                       [](const std::unique_ptr<Node>& node) { return node->ready(); });
  }
  void Turn(std::uint64_t pass_ns) {
    clock_.now_ns += pass_ns;
    reactor_->Turn();
    if (core_ != nullptr) core_->Step();
  }
  // Until everything is folded and told.
  void Settle() {
    for (int i = 0; i < 5000; ++i) Turn(10'000);
  }
  // Sent at once: the next turn finds it. An empty value is a get.
  api::Operation* Submit(const std::string& key, const std::string& value,
                         const std::string& memgest = "REP3") {
    api::Request request = api::GetRequest(key, {});
    if (!value.empty()) {
      PutOptions options;
      options.memgest = memgest;
      request = *api::PutRequest(core_.get(), key, value, options);
    }
    api::Operation* const op = *core_->Submit(request);
    core_->Flush();
    return op;
  }
  void Await(api::Operation* op) {
    for (int i = 0; i < 100'000 && op->state != api::OpState::kDone; ++i) Turn(1000);
    ASSERT_EQ(op->state, api::OpState::kDone);
    ASSERT_EQ(op->result.outcome, OpOutcome::kOk);
    core_->Free(op);
  }
  std::uint64_t Folded() const {
    std::uint64_t folded = 0;
    for (const std::unique_ptr<Node>& node : reactor_->nodes())
      folded += node->members().folded_count();
    return folded;
  }

  bool fail_over_ = true;  // before SetUp
  TestClock clock_;
  SeededRandom random_{1};
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<AdminPort> admin_;
  std::unique_ptr<api::ClientCore> core_;
};

}  // namespace ring::node

#endif  // RING_TESTS_NODE_REACTOR_FIXTURE_H_
