// tests/consensus/replica_net.h — replicas of a list of strings over a network that a test drives.
//
// What:      ListMachine, a state machine that appends; ReplicaNet, servers 1..n with memory
//            storages, in which nothing happens but by the test's calls.
// Ownership: owns servers and storages.
// Threads:   thread-compatible.
// Errors:    a server that does not start fails the test.
#ifndef RING_TESTS_CONSENSUS_REPLICA_NET_H_
#define RING_TESTS_CONSENSUS_REPLICA_NET_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "consensus/memory_storage.h"
#include "consensus/replica.h"
#include "gtest/gtest.h"
#include "tests/consensus/raft_net.h"

namespace ring::consensus {

// Appends each command; the result is how many there are. "refuse" is refused.
class ListMachine final : public StateMachine {
 public:
  absl::StatusOr<std::string> Apply(LogIndex, absl::string_view data) override {
    if (data == "refuse") return absl::InvalidArgumentError("refused");
    items.emplace_back(data);
    return std::to_string(items.size());
  }
  std::string Snapshot() override { return absl::StrJoin(items, ","); }
  absl::Status Restore(absl::string_view bytes) override {
    ++restores;
    items = absl::StrSplit(bytes, ',', absl::SkipEmpty());
    return absl::OkStatus();
  }
  std::vector<std::string> items;
  int restores = 0;
};

class ReplicaNet {
 public:
  struct Server final : ReplicaListener, PersistObserver {
    void Send(ServerId to, std::string bytes) override {
      // Whatever a server says, the observer has been told of before (L1).
      said_after_durable.push_back(observed_last);
      net->wire_.push_back({id, to.value(), std::move(bytes)});
    }
    void OnLeadership(Role role, ServerId, Term) override { roles.push_back(role); }
    void OnConfiguration(const Configuration& now) override { configuration = now; }
    void OnSnapshot(const Snapshot& snapshot, bool replaces_log) override {
      if (replaces_log) observed_last = snapshot.index;
      ++snapshots_observed;
    }
    void OnTruncate(LogIndex from) override {
      EXPECT_LE(from, observed_last);
      observed_last = from - 1;
      ++truncations_observed;
    }
    void OnAppend(absl::Span<const Entry> entries) override {
      EXPECT_EQ(entries.front().index, observed_last + 1);
      observed_last = entries.back().index;
      EXPECT_EQ(storage.last_index(), observed_last);
    }

    ReplicaNet* net = nullptr;
    std::uint64_t id = 0;
    MemoryStorage storage;
    ListMachine machine;
    std::unique_ptr<Replica> replica;
    std::vector<Role> roles;
    Configuration configuration;
    LogIndex observed_last = 0;
    int snapshots_observed = 0;
    int truncations_observed = 0;
    std::vector<LogIndex> said_after_durable;
  };

  // Servers 1 .. voters.
  explicit ReplicaNet(std::uint64_t voters, ReplicaOptions replica_options = {})
      : ReplicaNet(UpTo(voters), replica_options) {}
  explicit ReplicaNet(const std::vector<std::uint64_t>& voters, ReplicaOptions replica_options = {})
      : options(replica_options) {
    Configuration configuration;
    for (const std::uint64_t id : voters) configuration.AddVoter(S(id));
    for (const std::uint64_t id : voters) {
      EXPECT_TRUE(Bootstrap(configuration, servers_[id].storage).ok());
      Start(id);
    }
  }

  ReplicaOptions options;

  void Start(std::uint64_t id) {
    Server& server = servers_[id];
    server.net = this;
    server.id = id;
    server.machine = {};
    server.observed_last = 0;
    options.raft.id = S(id);
    options.raft.nonce = ++starts_ << 20;
    auto replica = Replica::Start(options, server.storage, server.machine, server, &server);
    ASSERT_TRUE(replica.ok()) << replica.status();
    server.replica = *std::move(replica);
  }
  void Stop(std::uint64_t id) { servers_[id].replica.reset(); }

  Server& server(std::uint64_t id) { return servers_[id]; }
  Replica& replica(std::uint64_t id) { return *servers_[id].replica; }
  void Isolate(std::uint64_t id) { isolated_.insert(id); }
  void Heal() { isolated_.clear(); }

  void Settle() {
    for (auto& [id, server] : servers_) {
      if (server.replica != nullptr) server.replica->Turn();
    }
    for (int count = 0; !wire_.empty(); ++count) {
      ASSERT_LT(count, 100'000);
      const Packet packet = std::move(wire_.front());
      wire_.pop_front();
      if (isolated_.contains(packet.from) || isolated_.contains(packet.to)) continue;
      const auto found = servers_.find(packet.to);
      if (found == servers_.end() || found->second.replica == nullptr) continue;
      found->second.replica->Receive(NodeOf(S(packet.from)), packet.bytes);
      found->second.replica->Turn();
    }
  }
  void TickAll(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      for (auto& [id, server] : servers_) {
        if (server.replica != nullptr) server.replica->Tick(id);
      }
      Settle();
    }
  }
  void Elect(std::uint64_t id) {
    EXPECT_TRUE(replica(id).Campaign().ok());
    Settle();
    ASSERT_TRUE(replica(id).is_ready_leader());
  }

 private:
  static std::vector<std::uint64_t> UpTo(std::uint64_t last) {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = 1; id <= last; ++id) ids.push_back(id);
    return ids;
  }
  struct Packet {
    std::uint64_t from;
    std::uint64_t to;
    std::string bytes;
  };
  std::map<std::uint64_t, Server> servers_;
  std::deque<Packet> wire_;
  std::set<std::uint64_t> isolated_;
  std::uint64_t starts_ = 0;
};

}  // namespace ring::consensus

#endif  // RING_TESTS_CONSENSUS_REPLICA_NET_H_
