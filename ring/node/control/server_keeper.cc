#include "ring/node/control/server_keeper.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace ring::node {
namespace {

using consensus::Configuration;
using consensus::ServerId;

constexpr std::uint64_t kPaceNs = 10'000'000;

bool IsOf(ServerId server, NodeId node) { return consensus::NodeOf(server) == node.value(); }

}  // namespace

void ServerKeeper::Change(const Configuration& next, std::uint64_t now_ns) {
  next_ns_ = now_ns + kPaceNs;
  *pending_ = true;
  replica_->ChangeConfiguration(next, [pending = pending_](const absl::Status&) {
    *pending = false;  // refused: the next look tries again
  });
}

bool ServerKeeper::AddWanted(std::uint64_t now_ns) {
  const Configuration& present = replica_->configuration();
  for (auto it = wanted_.begin(); it != wanted_.end();) {
    const auto& [node, server] = *it;
    if (present.Contains(server)) {
      it = wanted_.erase(it);
      continue;
    }
    Configuration next = present;
    std::vector<ServerId> all = present.voters;
    all.insert(all.end(), present.learners.begin(), present.learners.end());
    for (const ServerId former : all) {
      if (IsOf(former, node)) next.Remove(former);
    }
    next.AddLearner(server);
    // The last voter cannot be replaced: what it knew is lost, and with it the cluster.
    if (next.voters.empty()) {
      ++it;
      continue;
    }
    Change(next, now_ns);
    return true;
  }
  return false;
}

// Who has most of the log, and of those who was heard last: one that is gone is refused, and must
// not keep others from becoming voters.
bool ServerKeeper::PromoteOne(std::uint64_t now_ns) {
  const Configuration& present = replica_->configuration();
  const auto may = [this, &present](ServerId learner) {
    const std::uint16_t node = consensus::NodeOf(learner);
    return node < voter_count_ &&
           std::none_of(present.voters.begin(), present.voters.end(),
                        [node](ServerId voter) { return consensus::NodeOf(voter) == node; });
  };
  // Nearly always; asked at every look.
  if (std::none_of(present.learners.begin(), present.learners.end(), may)) return false;
  std::optional<consensus::PeerStatus> best;
  for (const consensus::PeerStatus& peer : replica_->Peers()) {
    if (!present.IsLearner(peer.id) || !may(peer.id)) continue;
    const bool better = !best.has_value() || peer.match > best->match ||
                        (peer.match == best->match && peer.silent_ticks < best->silent_ticks);
    if (better) best = peer;
  }
  if (!best.has_value()) return false;
  Configuration next = present;
  next.AddVoter(best->id);
  Change(next, now_ns);
  return true;
}

bool ServerKeeper::Progress(std::uint64_t now_ns) {
  if (!replica_->is_leader()) {
    wanted_.clear();  // the next leader is asked anew
    return false;
  }
  const bool may = replica_->is_ready_leader() && replica_->configuration_committed();
  if (!may || *pending_ || now_ns < next_ns_) return false;
  return AddWanted(now_ns) || PromoteOne(now_ns);
}

}  // namespace ring::node
