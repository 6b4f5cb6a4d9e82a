// tests/node/hostile/hostile_fixture.h — a whole cluster in this process, a healthy client with
// its data, and a way to node 0.
//
// What:      HostileTest starts a host and stores a value in every memgest; TearDown checks that
//            every one is still there and that the cluster serves writes: whatever a hostile client
//            did in between.
// Threads:   the host's own; the test's.
// Errors:    whatever the healthy client cannot do fails the test.
#ifndef RING_TESTS_NODE_HOSTILE_HOSTILE_FIXTURE_H_
#define RING_TESTS_NODE_HOSTILE_HOSTILE_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/cluster/routing.h"
#include "ring/node/host.h"
#include "tests/node/hostile/hostile_client.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {

class HostileTest : public ::testing::Test {
 protected:
  static constexpr int kKeysPerMemgest = 5;

  virtual void Configure(NodeConfig*) {}

  void SetUp() override {
    HostOptions options;
    options.config = EmbeddedConfig();
    Configure(&options.config);
    ASSERT_OK_AND_ASSIGN(host_, Host::Start(options));
    ASSERT_OK(host_->WaitReady(absl::Seconds(20)));
    view_ = *host_->admin().GetView();
    ASSERT_OK_AND_ASSIGN(healthy_, Client::Connect({.seeds = {host_->local_seed()},
                                                    .transport = ring::Transport::kLocal}));
    for (const protocol::MemgestDescriptor& memgest : view_->memgests) {
      for (int i = 0; i < kKeysPerMemgest; ++i) {
        ASSERT_OK(
            healthy_
                ->Put(HealthyKey(memgest, i), HealthyValue(memgest, i), {.memgest = memgest.name})
                .status());
      }
    }
  }

  void TearDown() override {
    if (healthy_ == nullptr) return;
    ExpectHealthy();
    healthy_.reset();
    host_->Stop();
  }

  void ExpectHealthy() {
    for (const protocol::MemgestDescriptor& memgest : view_->memgests) {
      for (int i = 0; i < kKeysPerMemgest; ++i) {
        const absl::StatusOr<GetResult> got = healthy_->Get(HealthyKey(memgest, i));
        ASSERT_TRUE(got.ok()) << HealthyKey(memgest, i) << ": " << got.status();
        ASSERT_EQ(got->value, HealthyValue(memgest, i));
      }
      const std::string key = absl::StrCat("after/", memgest.name);
      ASSERT_OK(healthy_->Put(key, "served", {.memgest = memgest.name}).status());
      ASSERT_OK_AND_ASSIGN(const GetResult got, healthy_->Get(key));
      ASSERT_EQ(got.value, "served");
    }
  }

  static std::string HealthyKey(const protocol::MemgestDescriptor& memgest, int i) {
    return absl::StrCat("healthy/", memgest.name, "/", i);
  }
  // Small, inline and large ones; each unlike any other.
  static std::string HealthyValue(const protocol::MemgestDescriptor& memgest, int i) {
    const std::string unit = absl::StrCat("SECRET-", memgest.name, "-", i, ";");
    const std::size_t size = std::size_t{1} << (4 * i);
    std::string value;
    while (value.size() < size) value += unit;
    return value;
  }

  const cluster::NodeInfo& node(std::size_t index = 0) const { return view_->nodes[index]; }
  std::string address() const { return node().local_address; }
  MemgestId Memgest(absl::string_view name) const { return view_->FindMemgest(name)->id; }

  // A key that the node coordinates, of at least this size; number: another key. With a place: of
  // this shard alone.
  std::string KeyOf(NodeId owner, int number = 0, std::size_t size = 0,
                    const cluster::Place* place = nullptr) const {
    const cluster::Routing routing(view_->s, view_->d);
    for (int i = 0;; ++i) {
      std::string key = absl::StrCat("x", number, "-", i);
      if (key.size() < size) key.resize(size, '.');
      const cluster::Place at = routing.OfKey(key);
      if (view_->Coordinator(at.group, at.shard) != owner) continue;
      if (place == nullptr || at == *place) return key;
    }
  }
  // A shard that node 0 coordinates.
  cluster::Place ShardOfNode0() const {
    return cluster::Routing(view_->s, view_->d).OfKey(KeyOf(NodeId(0)));
  }

  // Waits until the node counts as many clients.
  bool AwaitClients(std::size_t index, std::uint64_t count) {
    return testing::HoldsWithin(
        testing::kPatience, [&] { return ClientsAt(index) == count; }, absl::Milliseconds(5));
  }
  std::uint64_t ClientsAt(std::size_t index) {
    const absl::StatusOr<ClusterStats> stats = host_->admin().GetStats();
    return stats.ok() ? stats->nodes[index].clients : ~std::uint64_t{0};
  }

  std::unique_ptr<Host> host_;
  std::shared_ptr<const cluster::View> view_;
  std::unique_ptr<Client> healthy_;
};

}  // namespace ring::node

#endif  // RING_TESTS_NODE_HOSTILE_HOSTILE_FIXTURE_H_
