// Clients, readers, and an operator who changes the configuration.
#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/consensus/sim/world.h"

namespace ring::consensus::sim {

// Any server that takes itself for the leader: also one that was deposed.
std::optional<std::uint32_t> World::SomeLeader() {
  std::vector<std::uint32_t> leaders;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.raft != nullptr && now_ >= node.paused_until && node.raft->role() == Role::kLeader) {
      leaders.push_back(i);
    }
  }
  if (leaders.empty()) return std::nullopt;
  return leaders[random_.Below(leaders.size())];
}

std::optional<std::uint32_t> World::NewestLeader() const {
  std::optional<std::uint32_t> newest;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const Raft* raft = nodes_[i].raft.get();
    if (raft == nullptr || raft->role() != Role::kLeader) continue;
    if (!newest.has_value() || raft->term() > nodes_[*newest].raft->term()) newest = i;
  }
  return newest;
}

// A client has one command under way, and asks again with the same number when it hears nothing.
void World::ClientActs(std::size_t which) {
  Client& client = clients_[which];
  if (quiet_ || (calm_ && !Chance(250))) return;  // in the calm, those that lag catch up
  if (client.waiting && now_ - client.asked_at < 20 * kTickUnits) return;
  const auto leader = SomeLeader();
  if (!leader.has_value()) return;
  Node& node = nodes_[*leader];
  const std::uint32_t sequence = client.waiting ? client.sequence : client.sequence + 1;
  const Command command{static_cast<std::uint32_t>(which), sequence};
  const std::size_t filler =
      Chance(profile_.large) ? random_.Below(profile_.filler_max) : random_.Below(8);
  const absl::StatusOr<Position> position = node.raft->Propose(command.Encode(filler));
  if (position.ok()) {
    client.sequence = sequence;
    client.waiting = true;
    client.asked_at = now_;
    client.node = *leader;
    client.start = node.starts;
    client.position = *position;
  }
  Pump(*leader);
}

// The server that was asked applied the command: the client hears of it.
void World::Acknowledge(std::uint32_t index, const Entry& entry) {
  for (Client& client : clients_) {
    if (!client.waiting || client.node != index || client.start != nodes_[index].starts ||
        client.position != Position{entry.term, entry.index}) {
      continue;
    }
    client.waiting = false;
    client.acknowledged = client.sequence;
  }
}

void World::ReadSomewhere() { ReadAt(Victim()); }

void World::ReadAt(std::uint32_t index) {
  Node& node = nodes_[index];
  if (node.raft == nullptr || now_ < node.paused_until) return;
  const std::uint64_t context = next_read_++;
  if (!node.raft->Read(context).ok()) return;
  reads_[context] = {index, node.starts, checker_.committed_index(), std::nullopt};
  Pump(index);
}

void World::ReadsAnswered(std::uint32_t index, const Ready& ready) {
  for (const ReadState& read : ready.reads) {
    const auto found = reads_.find(read.context);
    if (found == reads_.end() || found->second.start != nodes_[index].starts) {
      checker_.Fail("an answer to a read that nobody asked for");
      return;
    }
    found->second.index = read.index;
  }
  for (const std::uint64_t context : ready.failed_reads) {
    if (reads_.erase(context) == 0) checker_.Fail("a read failed that nobody asked for");
  }
}

void World::FinishReads(std::uint32_t index) {
  for (auto read = reads_.begin(); read != reads_.end();) {
    if (read->second.node != index || !read->second.index.has_value() ||
        *read->second.index > nodes_[index].applied) {
      ++read;
      continue;
    }
    checker_.OnRead(nodes_[index].id, *read->second.index, read->second.committed_before);
    ++result_.reads;
    read = reads_.erase(read);
  }
}

// An operator who tries anything, at anyone who claims to lead.
void World::ChangeSomething() {
  const auto leader = calm_ ? NewestLeader() : SomeLeader();
  if (!leader.has_value()) return;
  Raft& raft = *nodes_[*leader].raft;
  ReplaceLost(raft);
  if (profile_.change_every > 0 && !calm_) {
    Configuration next = raft.configuration();
    const std::uint64_t changes =
        Chance(profile_.storm ? 300 : 50) ? 2 : 1;  // two at once must be refused
    for (std::uint64_t i = 0; i < changes; ++i) {
      const ServerId id = nodes_[AnyNode()].id;
      const std::uint64_t what = random_.Below(4);
      if (next.IsVoter(id)) {
        if (next.voters.size() <= 2 && profile_.voters > 2 && !Chance(300)) continue;
        what < 2 ? next.Remove(id) : next.AddLearner(id);
      } else if (next.IsLearner(id)) {
        what < 3 ? next.AddVoter(id) : next.Remove(id);
      } else {
        next.AddLearner(id);
      }
    }
    if (next != raft.configuration() && raft.ProposeConfiguration(next).ok()) {
      Count(Fault::kMembership);
      Trace("change", *leader, next.voters.size(), next.learners.size());
    }
  }
  Pump(*leader);
}

// A server that lost its disk goes, and comes back under its new id as a learner, then as a voter.
void World::ReplaceLost(Raft& leader) {
  for (const auto& [id, disk] : graves_) {
    if (!leader.configuration().Contains(id)) continue;
    Configuration next = leader.configuration();
    next.Remove(id);
    const ServerId fresh = nodes_[NodeOf(id) - 1u].id;
    if (fresh != id && !next.Contains(fresh)) next.AddLearner(fresh);
    leader.ProposeConfiguration(next).IgnoreError();
    return;
  }
  for (const Node& node : nodes_) {
    if (node.id.value() % (std::uint64_t{1} << kServerNumberBits) <= 100) continue;
    if (!leader.configuration().IsLearner(node.id)) continue;
    Configuration next = leader.configuration();
    next.AddVoter(node.id);
    if (leader.ProposeConfiguration(next).ok()) return;
  }
}

}  // namespace ring::consensus::sim
