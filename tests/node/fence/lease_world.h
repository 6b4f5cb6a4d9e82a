// tests/node/fence/lease_world.h — leaders that grant leases, and voters that show words, over a
// network and clocks that a test drives.
//
// What:      LeaseWorld: servers 0..n-1, each a consensus replica of the cluster's state machine
//            with a LeaseService and a FenceWord; nothing happens but by the test's calls.
// Units:     nanoseconds of one clock that all servers share.
// Ownership: owns everything.
// Threads:   one.
// Errors:    what cannot be played fails the test.
#ifndef RING_TESTS_NODE_FENCE_LEASE_WORLD_H_
#define RING_TESTS_NODE_FENCE_LEASE_WORLD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "consensus/memory_storage.h"
#include "consensus/replica.h"
#include "gtest/gtest.h"
#include "ring/base/clock.h"
#include "ring/node/control/cluster_machine.h"
#include "ring/node/fence/fence_word.h"
#include "ring/node/fence/lease_service.h"
#include "tests/cluster/view_builders.h"

namespace ring::node::testing {

inline constexpr std::uint64_t kLeaseNs = 100'000'000;

class TestClock final : public Clock {
 public:
  std::uint64_t NowNs() const override { return now_ns; }
  std::uint64_t now_ns = 1'000'000'000;
};

class LeaseWorld {
 public:
  // What becomes of a call.
  using Outcome = std::shared_ptr<std::optional<absl::Status>>;

  // lease_ns: 0: nobody waits for leases, as under checks.
  explicit LeaseWorld(std::uint16_t count = 3, std::uint64_t lease_ns = kLeaseNs) {
    cluster::View first = cluster::TestView();
    first.fail_over = true;
    consensus::Configuration voters;
    for (std::uint16_t i = 0; i < count; ++i) voters.AddVoter(ServerOf(i));
    for (std::uint16_t i = 0; i < count; ++i) {
      Server& server = servers_[i];
      server.world = this;
      server.index = i;
      server.shows = FenceWord(ServerOf(i), server.word);
      server.machine = std::make_unique<ClusterMachine>(
          cluster::ClusterState(first),
          [&server](const std::shared_ptr<const cluster::View>& view) {
            if (server.view != nullptr) server.leases->OnView(*server.view, *view);
            server.view = view;
          });
      server.leases = std::make_unique<LeaseService>(&clock, server.machine.get(), lease_ns);
      EXPECT_TRUE(consensus::Bootstrap(voters, server.storage).ok());
      consensus::ReplicaOptions options;
      options.raft.id = ServerOf(i);
      options.raft.nonce = std::uint64_t{i} << 20;
      auto replica =
          consensus::Replica::Start(options, server.storage, *server.machine, server, &server);
      EXPECT_TRUE(replica.ok()) << replica.status();
      server.replica = *std::move(replica);
      server.leases->set_replica(server.replica.get());
    }
  }

  TestClock clock;

  // Every node of the view registers; server 0 leads.
  void Begin() {
    Elect(0);
    for (std::uint32_t i = 0; i < 6; ++i) Register(0, i, FirstStart(i));
  }
  static Incarnation FirstStart(std::uint32_t node) { return Incarnation(100 + node); }
  Outcome Register(std::uint16_t at, std::uint32_t node, Incarnation incarnation) {
    cluster::NodeInfo info = cluster::TestView().nodes[node];
    info.incarnation = incarnation;
    return Propose(at, cluster::RegisterNode{info});
  }
  Outcome Fail(std::uint16_t at, std::uint32_t node) {
    return Propose(at, cluster::FailNode{NodeId(node), FirstStart(node), "test"});
  }
  Outcome Propose(std::uint16_t at, const cluster::ClusterCommand& command) {
    auto [outcome, reply] = Call();
    servers_[at].leases->Propose(command, cluster::EncodeClusterCommand(command), std::move(reply));
    Settle();
    return outcome;
  }
  // view_epoch: what the node knows; none: what the server has applied.
  Outcome Renew(std::uint16_t at, std::uint32_t node,
                std::optional<std::uint32_t> view_epoch = {}) {
    auto [outcome, reply] = Call();
    const std::uint32_t known = view_epoch.value_or(view(at).epoch);
    servers_[at].leases->OnRenew(NodeId(node), EncodeRenewal({FirstStart(node), known}),
                                 std::move(reply));
    Settle();
    return outcome;
  }
  static bool Granted(const Outcome& outcome) { return outcome->has_value() && (*outcome)->ok(); }
  static bool Refused(const Outcome& outcome) { return outcome->has_value() && !(*outcome)->ok(); }
  const cluster::View& view(std::uint16_t at) { return servers_[at].machine->view(); }
  bool HasRole(std::uint16_t at, std::uint32_t node) { return view(at).HoldsRole(NodeId(node)); }

  void Elect(std::uint16_t at) {
    EXPECT_TRUE(servers_[at].replica->Campaign().ok());
    Settle();
    EXPECT_TRUE(servers_[at].replica->is_ready_leader());
  }
  // The others elect one of them, and the former leader, cut off, does not notice. Gives who leads.
  std::uint16_t ElectWithout(std::uint16_t former) {
    Isolate(former);
    for (int i = 0; i < 200; ++i) {
      for (auto& [index, server] : servers_) {
        if (index == former) continue;
        server.replica->Tick(index);
        if (server.replica->is_ready_leader()) return index;
      }
      Settle();
    }
    ADD_FAILURE() << "nobody leads";
    return former;
  }
  // What the server shows, what it has applied, and its replica.
  std::uint64_t word(std::uint16_t at) { return LoadFenceWord(servers_[at].word); }
  RoleMark known(std::uint16_t at) {
    Server& server = servers_[at];
    return {server.machine->roles(),
            server.replica->raft().log().ConfigurationAt(server.replica->applied_index()).voters,
            server.machine->view().founding};
  }
  std::string Snapshot(std::uint16_t at) { return servers_[at].machine->Snapshot(); }
  consensus::Replica& replica(std::uint16_t at) { return *servers_[at].replica; }
  // A leader counted itself before it showed what it counted.
  bool counted_unseen() const { return counted_unseen_; }
  void RemoveVoter(std::uint16_t at, std::uint16_t voter) {
    consensus::Configuration next = replica(at).configuration();
    next.Remove(ServerOf(voter));
    replica(at).ChangeConfiguration(
        next, [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    Settle();
  }
  // The server is another one from now on, which was told the log up to `last`.
  void LoseMemory(std::uint16_t at, consensus::LogIndex last) {
    const consensus::RaftLog& log = replica(0).raft().log();
    Server& server = servers_[at];
    server.shows = FenceWord(consensus::MakeServerId(at, 77), server.word);
    consensus::Snapshot first;
    first.configuration = log.ConfigurationAt(0);
    server.shows.OnSnapshot(first, true);
    server.shows.OnAppend(log.Range(1, last));
  }
  static consensus::ServerId ServerOf(std::uint16_t index) {
    return consensus::MakeServerId(index, 1);
  }
  void Tick(std::uint16_t at) { servers_[at].replica->Tick(at); }
  void Isolate(std::uint16_t at) { isolated_.insert(at); }
  void Heal() { isolated_.clear(); }
  void Pass(std::uint64_t ns) {
    clock.now_ns += ns;
    Settle();
  }
  void Settle() {
    for (auto& [index, server] : servers_) {
      server.leases->Progress(clock.now_ns);
      server.replica->Turn();
    }
    while (!wire_.empty()) {
      const Packet packet = std::move(wire_.front());
      wire_.pop_front();
      if (isolated_.contains(packet.from) || isolated_.contains(packet.to)) continue;
      servers_[packet.to].replica->Receive(packet.from, packet.bytes);
      servers_[packet.to].replica->Turn();
    }
  }

 private:
  struct Packet {
    std::uint16_t from;
    std::uint16_t to;
    std::string bytes;
  };
  struct Server final : consensus::ReplicaListener, consensus::PersistObserver {
    void Send(consensus::ServerId to, std::string bytes) override {
      world->wire_.push_back({index, consensus::NodeOf(to), std::move(bytes)});
    }
    void OnLeadership(consensus::Role role, consensus::ServerId, consensus::Term) override {
      leases->OnLeadership(role == consensus::Role::kLeader);
    }
    void OnConfiguration(const consensus::Configuration&) override {}

    void OnSnapshot(const consensus::Snapshot& snapshot, bool replaces_log) override {
      shows.OnSnapshot(snapshot, replaces_log);
    }
    void OnTruncate(consensus::LogIndex from) override { shows.OnTruncate(from); }
    void OnAppend(absl::Span<const consensus::Entry> entries) override {
      if (replica != nullptr && replica->is_leader() &&
          replica->commit_index() >= entries.back().index)
        world->counted_unseen_ = true;
      shows.OnAppend(entries);
    }

    LeaseWorld* world = nullptr;
    std::uint16_t index = 0;
    alignas(kFenceWordSize) std::byte word[kFenceWordSize] = {};
    FenceWord shows{ServerOf(0), word};
    std::shared_ptr<const cluster::View> view;
    consensus::MemoryStorage storage;
    std::unique_ptr<ClusterMachine> machine;
    std::unique_ptr<LeaseService> leases;
    std::unique_ptr<consensus::Replica> replica;
  };

  static std::pair<Outcome, ControlReply> Call() {
    auto outcome = std::make_shared<std::optional<absl::Status>>();
    return {outcome,
            [outcome](const absl::StatusOr<std::string>& result) { *outcome = result.status(); }};
  }

  std::map<std::uint16_t, Server> servers_;
  std::deque<Packet> wire_;
  std::set<std::uint16_t> isolated_;
  bool counted_unseen_ = false;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_FENCE_LEASE_WORLD_H_
