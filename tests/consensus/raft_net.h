// tests/consensus/raft_net.h — a few Raft servers and a network that does what a test says.
//
// What:      RaftNet: servers 1..n with memory storages; nothing happens but by the test's calls.
//            Settle delivers until nothing is on its way; links can be cut, single messages
//            dropped, persists held back.
// Ownership: owns servers and storages.
// Threads:   thread-compatible.
// Errors:    a decoded message that differs from the one encoded fails the test.
#ifndef RING_TESTS_CONSENSUS_RAFT_NET_H_
#define RING_TESTS_CONSENSUS_RAFT_NET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consensus/memory_storage.h"
#include "consensus/raft.h"
#include "gtest/gtest.h"

namespace ring::consensus {

inline ServerId S(std::uint64_t number) { return ServerId(number); }

inline Configuration Voters(std::vector<std::uint64_t> voters,
                            std::vector<std::uint64_t> learners = {}) {
  Configuration configuration;
  for (const std::uint64_t id : voters) configuration.AddVoter(S(id));
  for (const std::uint64_t id : learners) configuration.AddLearner(S(id));
  return configuration;
}

class RaftNet {
 public:
  struct Server {
    MemoryStorage storage;
    std::unique_ptr<Raft> raft;  // nullptr: down
    std::vector<Entry> applied;  // commands and configurations and no-ops, since the last start
    SnapshotRef restored;
    std::vector<ReadState> reads;
    std::vector<std::uint64_t> failed_reads;
    bool hold_persists = false;
    std::optional<PersistRequest> held;
  };

  RaftNet() = default;
  // Servers 1..voters, all with the same first configuration.
  explicit RaftNet(std::uint64_t voters) {
    Configuration configuration;
    for (std::uint64_t id = 1; id <= voters; ++id) configuration.AddVoter(S(id));
    for (std::uint64_t id = 1; id <= voters; ++id) Add(id, configuration);
  }

  Options options;  // for servers that are started from now on

  // A server that knows a configuration from the start, or (empty) waits to be told.
  Raft& Add(std::uint64_t id, const Configuration& configuration = {}) {
    Server& server = servers_[id];
    if (!configuration.empty()) {
      EXPECT_TRUE(Bootstrap(configuration, server.storage).ok());
    }
    return Start(id);
  }
  Raft& Start(std::uint64_t id) {
    Server& server = servers_[id];
    options.id = S(id);
    options.nonce = (id << 32) + (++starts_ << 16);
    server.raft = std::make_unique<Raft>(options, *server.storage.Load());
    server.applied.clear();
    server.held.reset();
    return *server.raft;
  }
  // What was not persisted is lost.
  void Stop(std::uint64_t id) {
    servers_[id].raft.reset();
    servers_[id].held.reset();
  }

  Server& server(std::uint64_t id) { return servers_[id]; }
  Raft& raft(std::uint64_t id) { return *servers_[id].raft; }
  Raft* leader() {
    Raft* found = nullptr;
    for (auto& [id, server] : servers_) {
      if (server.raft == nullptr || server.raft->role() != Role::kLeader) continue;
      if (found == nullptr || server.raft->term() > found->term()) found = server.raft.get();
    }
    return found;
  }

  void Cut(std::uint64_t a, std::uint64_t b) {
    CutOneWay(a, b);
    CutOneWay(b, a);
  }
  void CutOneWay(std::uint64_t from, std::uint64_t to) { cut_.insert({S(from), S(to)}); }
  void Isolate(std::uint64_t id) {
    for (auto& [other, server] : servers_) {
      if (other != id) Cut(id, other);
    }
  }
  void Heal() { cut_.clear(); }
  // Only these links are up.
  void Connect(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& links) {
    for (auto& [a, x] : servers_) {
      for (auto& [b, y] : servers_) {
        if (a != b) Cut(a, b);
      }
    }
    for (const auto& [a, b] : links) {
      cut_.erase({S(a), S(b)});
      cut_.erase({S(b), S(a)});
    }
  }
  // Drops what it says true to.
  std::function<bool(const Message&)> drop;
  // Everything that was delivered or dropped since the test last cleared it.
  std::vector<Message> seen;

  // Does what one server wants done; its messages are then on their way.
  void Pump(std::uint64_t id) {
    Server& server = servers_[id];
    for (int turn = 0; server.raft != nullptr && turn < 100; ++turn) {
      Ready ready = server.raft->TakeReady();
      for (Message& m : ready.messages) wire_.push_back(std::move(m));
      if (ready.restore != nullptr) {
        server.restored = ready.restore;
        server.applied.clear();
      }
      for (Entry& entry : ready.committed) server.applied.push_back(std::move(entry));
      for (const ReadState& read : ready.reads) server.reads.push_back(read);
      for (const std::uint64_t read : ready.failed_reads) server.failed_reads.push_back(read);
      if (!ready.persist.has_value()) return;
      if (server.hold_persists) {
        server.held = std::move(ready.persist);
        return;
      }
      server.raft->Persisted(ready.persist->id, server.storage.Persist(*ready.persist).ok());
    }
    ASSERT_TRUE(server.raft == nullptr) << "server " << id << " never comes to rest";
  }
  // The persist that is held back happens, or fails.
  void FinishPersist(std::uint64_t id, bool ok = true) {
    Server& server = servers_[id];
    ASSERT_TRUE(server.held.has_value());
    const PersistRequest request = *std::exchange(server.held, std::nullopt);
    if (ok) ok = server.storage.Persist(request).ok();
    server.raft->Persisted(request.id, ok);
    Pump(id);
  }

  // Delivers one message that is on its way; false when there is none.
  bool DeliverOne() {
    if (wire_.empty()) return false;
    Message m = std::move(wire_.front());
    wire_.pop_front();
    Deliver(std::move(m));
    return true;
  }
  void Deliver(Message m) {
    const absl::StatusOr<Message> decoded = DecodeMessage(EncodeMessage(m));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, m);
    seen.push_back(m);
    if (cut_.contains({m.from, m.to}) || (drop && drop(m))) return;
    const std::uint64_t to = m.to.value();
    const auto found = servers_.find(to);
    if (found == servers_.end() || found->second.raft == nullptr) return;
    found->second.raft->Receive(std::move(m));
    Pump(to);
  }
  void Settle() {
    for (auto& [id, server] : servers_) Pump(id);
    for (int count = 0; DeliverOne(); ++count) {
      ASSERT_LT(count, 100'000) << "the network never comes to rest";
    }
  }
  // Ticks bring the server's number: of equal servers, server 1 campaigns first.
  void Tick(std::uint64_t id, std::uint64_t count = 1) {
    for (std::uint64_t i = 0; i < count && servers_[id].raft != nullptr; ++i) {
      servers_[id].raft->Tick(id);
      Settle();
    }
  }
  void TickAll(std::uint64_t count = 1) {
    for (std::uint64_t i = 0; i < count; ++i) {
      for (auto& [id, server] : servers_) {
        if (server.raft != nullptr) server.raft->Tick(id);
      }
      Settle();
    }
  }
  // Makes a server the leader; REQUIRES that nobody else is one that it hears.
  void Elect(std::uint64_t id) {
    EXPECT_TRUE(raft(id).Campaign().ok());
    Settle();
    ASSERT_EQ(raft(id).role(), Role::kLeader);
    ASSERT_TRUE(raft(id).tenure_begun());
  }
  Position Propose(std::uint64_t id, std::string data) {
    const absl::StatusOr<Position> position = raft(id).Propose(std::move(data));
    EXPECT_TRUE(position.ok()) << position.status();
    Settle();
    return position.value_or(Position{});
  }
  std::vector<std::string> Commands(std::uint64_t id) {
    std::vector<std::string> commands;
    for (const Entry& entry : servers_[id].applied) {
      if (entry.kind == EntryKind::kCommand) commands.push_back(entry.data);
    }
    return commands;
  }
  std::deque<Message>& wire() { return wire_; }

 private:
  std::map<std::uint64_t, Server> servers_;
  std::deque<Message> wire_;
  std::set<std::pair<ServerId, ServerId>> cut_;
  std::uint64_t starts_ = 0;
};

}  // namespace ring::consensus

#endif  // RING_TESTS_CONSENSUS_RAFT_NET_H_
