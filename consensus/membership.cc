// Changes of the configuration: one voter at a time, a learner first (10.4).
#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "consensus/raft.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::consensus {

absl::StatusOr<Position> Raft::ProposeConfiguration(const Configuration& next) {
  if (role_ != Role::kLeader) return NotLeader();
  RING_RETURN_IF_ERROR(CheckChange(next));
  const Position position = AppendOwn(EntryKind::kConfig, EncodeConfiguration(next));
  ConfigurationChanged();
  return position;
}

absl::Status Raft::CheckChange(const Configuration& next) const {
  RING_RETURN_IF_ERROR(next.Validate());
  if (transferee_ != kNoServer) {
    return absl::UnavailableError("leadership is being handed over");
  }
  if (EncodedSize(next) + kAppendOverhead + kEntryOverhead > options_.message_size_max) {
    return absl::InvalidArgumentError(
        absl::StrFormat("configuration_size=%d: fits into no message", EncodedSize(next)));
  }
  // Else two changes of different terms could each find a quorum that knows nothing of the other
  // (Ongaro, raft-dev, "bug in single-server membership changes", 2015).
  if (!tenure_begun() && !Mutant("P104ChangeBeforeNoop")) {
    return absl::FailedPreconditionError("the first entry of this leader is not committed yet");
  }
  if (!configuration_committed() && !Mutant("P104SeveralChangesAtOnce")) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the change at index=%d is not committed yet", log_.configuration_index()));
  }
  return CheckVoterChange(next);
}

absl::Status Raft::CheckVoterChange(const Configuration& next) const {
  const Configuration& now = configuration();
  std::vector<ServerId> changed;
  std::set_symmetric_difference(now.voters.begin(), now.voters.end(), next.voters.begin(),
                                next.voters.end(), std::back_inserter(changed));
  if (changed.empty()) return absl::OkStatus();
  if (changed.size() > 1 && !Mutant("P104ChangeTwoVoters")) {
    return absl::InvalidArgumentError(
        absl::StrFormat("voters_changed=%d: one at a time", changed.size()));
  }
  for (const ServerId id : changed) {
    if (now.IsVoter(id)) continue;
    const auto peer = peers_.find(id);
    if (!now.IsLearner(id) || peer == peers_.end()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("server=%x: a voter is a learner first", id.value()));
    }
    if (now_ticks_ - peer->second.last_heard >= options_.election_ticks ||
        peer->second.match + options_.promote_lag_max < log_.last_index()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("server=%x: has not caught up, match=%d last=%d", id.value(),
                          peer->second.match, log_.last_index()));
    }
  }
  return absl::OkStatus();
}

// The leader's peers follow its configuration, committed or not.
void Raft::ConfigurationChanged() {
  const Configuration& now = configuration();
  std::erase_if(peers_, [&now](const auto& peer) { return !now.Contains(peer.first); });
  for (const auto* servers : {&now.voters, &now.learners}) {
    for (const ServerId id : *servers) {
      if (id == options_.id || peers_.contains(id)) continue;
      Progress& peer = peers_[id];
      peer.next = log_.last_index() + 1;
      peer.last_heard = peer.moved = now_ticks_;
    }
  }
  if (!now.IsVoter(transferee_)) transferee_ = kNoServer;
}

// A leader whose removal is committed has served (dissertation 4.2.2); the voter that has most
// takes over without waiting.
void Raft::LeaveIfRemoved() {
  if (!configuration_committed() || SelfIsVoter()) return;
  ServerId successor = kNoServer;
  LogIndex most = 0;
  for (const auto& [id, peer] : peers_) {
    if (configuration().IsVoter(id) && (successor == kNoServer || peer.match > most)) {
      successor = id;
      most = peer.match;
    }
  }
  ReplicateToAll();  // they learn of the commit
  if (successor != kNoServer) {
    Send(MakeMessage(MessageType::kTimeoutNow, successor), Claim::kHardState);
  }
  Resign();
}

}  // namespace ring::consensus
