// The phases of a run, and what must hold at its end.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "tests/consensus/sim/world.h"

namespace ring::consensus::sim {

Result World::Run() {
  RunUntil(profile_.ticks * kTickUnits);
  if (!failed()) Calm();
  if (!failed()) Nuisance();
  result_.ticks = now_ / kTickUnits;
  result_.committed = checker_.committed_index();
  result_.elections = checker_.elections();
  result_.violation = checker_.violation();
  return result_;
}

// 10.3: whoever leads after a tick hears a quorum.
void World::CheckQuorum(std::uint32_t index) {
  const Node& node = nodes_[index];
  if (node.raft->role() != Role::kLeader) return;
  const Configuration& configuration = node.raft->configuration();
  std::size_t heard = configuration.IsVoter(node.id) ? 1 : 0;
  for (const PeerStatus& peer : node.raft->Peers()) {
    if (peer.voter && peer.silent_ticks < profile_.raft.election_ticks) ++heard;
  }
  if (heard < QuorumOf(configuration.voters.size())) {
    checker_.Fail(absl::StrFormat("10.3 leads without a quorum: server=%x term=%d", node.id.value(),
                                  node.raft->term()));
  }
}

// Faults stop; everything that was begun must come to an end.
void World::Calm() {
  calm_ = true;
  Heal();
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].paused_until = 0;
    if (nodes_[i].raft == nullptr) Restart(i);
  }
  // Late messages may come for a while yet.
  const std::uint64_t begin = now_;
  constexpr std::uint64_t kCalmTicksMax = 600;
  for (std::string why = Unsettled(); !failed() && !why.empty(); why = Unsettled()) {
    if (now_ - begin > kCalmTicksMax * kTickUnits) {
      checker_.Fail(
          absl::StrFormat("liveness: %d ticks after the last fault: %s", kCalmTicksMax, why));
    }
    RunUntil(now_ + 4 * kTickUnits);
  }
}

// One leader that all members follow, all of them equal, no lost server left in the configuration,
// and what clients were told of is there.
std::string World::Unsettled() const {
  const auto newest = NewestLeader();
  if (!newest.has_value()) return "no leader";
  const Node& leader = nodes_[*newest];
  if (!leader.raft->tenure_begun()) return "nothing of the leader's term is committed";
  if (!leader.raft->configuration_committed()) return "a change is not committed";
  const Configuration& configuration = leader.raft->configuration();
  for (const auto& grave : graves_) {
    if (configuration.Contains(grave.first)) return "a lost server is a member";
  }
  for (const Node& node : nodes_) {
    if (!configuration.Contains(node.id)) continue;
    if (node.raft->leader() != leader.id) {
      return absl::StrFormat("server=%x does not follow", node.id.value());
    }
    if (node.applied + 8 < leader.applied) {
      return absl::StrFormat("server=%x lags, applied=%d of %d", node.id.value(), node.applied,
                             leader.applied);
    }
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (leader.machine.last(i) < clients_[i].acknowledged) {
      return "what a client was told of is not there";
    }
  }
  return {};
}

// 10.3: a voter that hears nobody, but is heard, and one that was cut off and comes back with all
// there is, depose nobody.
void World::Nuisance() {
  const auto newest = NewestLeader();
  Node& leader = nodes_[*newest];
  std::vector<std::uint32_t> others;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (i != *newest && leader.raft->configuration().IsVoter(nodes_[i].id)) others.push_back(i);
  }
  const std::size_t voters = leader.raft->configuration().voters.size();
  if (others.empty() || voters < 3 || !leader.raft->configuration().IsVoter(leader.id)) return;
  // Messages of the time before are gone, nobody is about to campaign, and all logs are equal: a
  // candidate would find votes.
  quiet_ = true;
  RunUntil(now_ + 80 * kTickUnits);
  if (failed() || leader.raft->role() != Role::kLeader) return;
  const Term term = leader.raft->term();
  const std::uint32_t victim = others[random_.Below(others.size())];
  const bool deaf = random_.Below(2) == 0;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (i == victim) continue;
    cut_[i][victim] = i == *newest || !deaf;
    if (!deaf) cut_[victim][i] = 1;
  }
  RunUntil(now_ + 5 * profile_.raft.election_ticks * kTickUnits);
  Heal();
  RunUntil(now_ + 3 * profile_.raft.election_ticks * kTickUnits);
  if (!failed() && (leader.raft->role() != Role::kLeader || leader.raft->term() != term)) {
    checker_.Fail(
        absl::StrFormat("10.3 deposed by one that was cut off: server=%x", leader.id.value()));
  }
}

Result RunSeed(std::uint64_t seed, const WorldBugs& bugs, std::FILE* trace) {
  return World(MakeProfile(seed), bugs, trace).Run();
}

}  // namespace ring::consensus::sim
