// A program that replicates a state machine of its own: three servers, and messages that it
// carries between them.
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "consensus/memory_storage.h"
#include "consensus/replica.h"

namespace {

namespace consensus = ring::consensus;

constexpr std::uint16_t kServers = 3;

consensus::ServerId IdOf(std::uint16_t node) { return consensus::MakeServerId(node, 1); }

struct Letter {
  std::uint16_t from;
  std::uint16_t to;
  std::string bytes;
};

// Text that commands are appended to.
class Text final : public consensus::StateMachine {
 public:
  absl::StatusOr<std::string> Apply(consensus::LogIndex, absl::string_view data) override {
    text.append(data.data(), data.size());
    return text;
  }
  std::string Snapshot() override { return text; }
  absl::Status Restore(absl::string_view bytes) override {
    text.assign(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  std::string text;
};

struct Server final : consensus::ReplicaListener {
  void Send(consensus::ServerId to, std::string bytes) override {
    mail->push_back({node, consensus::NodeOf(to), std::move(bytes)});
  }
  void OnLeadership(consensus::Role, consensus::ServerId, consensus::Term) override {}
  void OnConfiguration(const consensus::Configuration&) override {}

  std::uint16_t node = 0;
  std::deque<Letter>* mail = nullptr;
  consensus::MemoryStorage storage;
  Text machine;
  std::unique_ptr<consensus::Replica> replica;
};

bool Start(Server& server, const consensus::Configuration& voters) {
  if (!consensus::Bootstrap(voters, server.storage).ok()) return false;
  consensus::ReplicaOptions options;
  options.raft.id = IdOf(server.node);
  auto started =
      consensus::Replica::Start(options, server.storage, server.machine, server, nullptr);
  if (!started.ok()) return false;
  server.replica = *std::move(started);
  return true;
}

void CarryAll(std::vector<Server>& servers, std::deque<Letter>& mail) {
  for (int rounds = 0; rounds < 1000; ++rounds) {
    for (Server& server : servers) server.replica->Turn();
    if (mail.empty()) return;
    const Letter letter = std::move(mail.front());
    mail.pop_front();
    servers[letter.to].replica->Receive(letter.from, letter.bytes);
  }
}

bool Run() {
  std::deque<Letter> mail;
  std::vector<Server> servers(kServers);
  consensus::Configuration voters;
  for (std::uint16_t i = 0; i < kServers; ++i) voters.AddVoter(IdOf(i));
  for (std::uint16_t i = 0; i < kServers; ++i) {
    servers[i].node = i;
    servers[i].mail = &mail;
    if (!Start(servers[i], voters)) return false;
  }
  if (!servers[0].replica->Campaign().ok()) return false;
  CarryAll(servers, mail);
  std::string result;
  servers[0].replica->Propose("good", [&result](const absl::StatusOr<std::string>& applied) {
    if (applied.ok()) result = *applied;
  });
  CarryAll(servers, mail);
  // The followers hear with the next heartbeat that it is committed.
  for (int i = 0; i < 10; ++i) {
    servers[0].replica->Tick(static_cast<std::uint64_t>(i));
    CarryAll(servers, mail);
  }
  for (const Server& server : servers) {
    if (server.machine.text != "good") return false;
  }
  return servers[0].replica->is_leader() && result == "good";
}

}  // namespace

int main() {
  const bool good = Run();
  std::puts(good ? "consensus: good" : "consensus: wrong");
  return good ? 0 : 1;
}
