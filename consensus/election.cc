// Elections: pre-vote, votes, resignation, and handing leadership over (10.3, 10.7).
#include <utility>

#include "absl/strings/str_format.h"
#include "consensus/raft.h"
#include "ring/base/mutant.h"

namespace ring::consensus {

// Whether an election may need this server. One that its own latest configuration leaves out is
// still needed until that is committed: perhaps nobody else has the entry, and its vote counts for
// the others, whose logs are behind (dissertation 4.2.2).
bool Raft::ElectionNeedsSelf() const {
  if (SelfIsVoter()) return true;
  return !configuration_committed() &&
         log_.ConfigurationAt(log_.configuration_index() - 1).IsVoter(options_.id);
}

// A server whose disk fails or hangs, and one that has nothing durable but a snapshot on its way,
// keep quiet.
bool Raft::CanCampaign() const {
  return role_ != Role::kLeader && ElectionNeedsSelf() && !persist_failed_ && !persist_late() &&
         !(pending_snapshot_ != nullptr && pending_replaces_);
}

absl::Status Raft::Campaign() {
  if (role_ == Role::kLeader) return absl::OkStatus();
  if (!CanCampaign()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "server=%x: not a voter, or its storage is not up to date", options_.id.value()));
  }
  BeginCampaign(/*pre_vote=*/true, /*force=*/false);
  return absl::OkStatus();
}

void Raft::BeginCampaign(bool pre_vote, bool force) {
  BecomeFollower(hard_state_.term, kNoServer);
  ResetElectionTimer();
  if (!pre_vote || Mutant("P103NoPreVote")) {
    BecomeCandidate(force);
    return;
  }
  role_ = Role::kPreCandidate;
  votes_[options_.id] = true;
  RequestVotes(MessageType::kPreVote, hard_state_.term + 1, /*force=*/false);
  CountVotes();
}

// Its own vote counts once it is durable: see Persisted.
void Raft::BecomeCandidate(bool force) {
  SetTerm(hard_state_.term + 1, options_.id);
  role_ = Role::kCandidate;
  votes_.clear();
  ResetElectionTimer();
  RequestVotes(MessageType::kVote, hard_state_.term, force);
}

void Raft::RequestVotes(MessageType type, Term term, bool force) {
  // Only what is durable counts for an election (10.7).
  const LogIndex last = Mutant("P107CampaignOnUnpersisted") ? log_.last_index() : log_.persisted();
  for (const ServerId voter : configuration().voters) {
    if (voter == options_.id) continue;
    Message m = MakeMessage(type, voter);
    m.term = term;
    m.index = last;
    m.log_term = *log_.TermAt(last);
    m.force = force;
    Send(std::move(m), Claim::kHardState);
  }
}

// Whoever heard of a leader within the shortest election time-out heeds no candidate: servers that
// were removed or cut off cannot disturb (10.3; dissertation 4.2.3).
bool Raft::HearsALeader() const {
  if (Mutant("P103NoStickiness")) return false;
  return role_ == Role::kLeader ||
         (leader_ != kNoServer && silence_ticks_ < options_.election_ticks);
}

void Raft::ReceiveVoteRequest(const Message& m) {
  if (!m.force && HearsALeader()) return;
  const bool pre = m.type == MessageType::kPreVote;
  if (!pre && m.term > hard_state_.term) BecomeFollower(m.term, kNoServer);
  // "The voter denies its vote if its own log is more up-to-date" (dissertation 3.6.1).
  const bool up_to_date = m.log_term > log_.last_term() ||
                          (m.log_term == log_.last_term() && m.index >= log_.last_index());
  const bool free =
      hard_state_.vote == m.from || (hard_state_.vote == kNoServer && leader_ == kNoServer);
  const bool grant =
      up_to_date && (pre ? m.term > hard_state_.term : m.term == hard_state_.term && free);
  Message reply = MakeMessage(pre ? MessageType::kPreVoteReply : MessageType::kVoteReply, m.from);
  reply.reject = !grant;
  if (grant && pre) reply.term = m.term;
  if (grant && !pre) {
    if (!Mutant("P106ForgetVote")) hard_state_.vote = m.from;
    ResetElectionTimer();
  }
  Send(std::move(reply), Claim::kHardState);
}

void Raft::ReceiveVoteReply(const Message& m) {
  if (m.type == MessageType::kPreVoteReply) {
    if (role_ != Role::kPreCandidate) return;
    if (!m.reject && m.term != hard_state_.term + 1) return;
  } else if (role_ != Role::kCandidate) {
    return;
  }
  votes_[m.from] = !m.reject;
  CountVotes();
}

void Raft::CountVotes() {
  std::size_t granted = 0;
  std::size_t denied = 0;
  for (const ServerId voter : configuration().voters) {
    const auto vote = votes_.find(voter);
    if (vote == votes_.end()) continue;
    ++(vote->second ? granted : denied);
  }
  const std::size_t quorum = QuorumOf(configuration().voters.size());
  if (granted >= quorum) {
    if (role_ == Role::kPreCandidate) {
      BecomeCandidate(/*force=*/false);
    } else {
      BecomeLeader();
    }
  } else if (denied >= quorum) {
    role_ = Role::kFollower;  // the time-out goes on
    votes_.clear();
  }
}

void Raft::BecomeLeader() {
  role_ = Role::kLeader;
  leader_ = options_.id;
  votes_.clear();
  heartbeat_elapsed_ = 0;
  uncommitted_size_ = 0;
  round_ = 0;
  peers_.clear();
  ConfigurationChanged();
  tenure_start_ = log_.last_index() + 1;
  if (Mutant("P102NoNoop")) {
    tenure_start_ = 0;
    return;
  }
  AppendOwn(EntryKind::kNoop, {});
}

void Raft::TickFollower() {
  if (++silence_ticks_ < election_timeout_) return;
  if (CanCampaign()) {
    BeginCampaign(/*pre_vote=*/true, /*force=*/false);
    return;
  }
  if (leader_ != kNoServer || role_ != Role::kFollower) {
    BecomeFollower(hard_state_.term, kNoServer);
  }
  ResetElectionTimer();
}

void Raft::TickLeader() {
  CheckQuorum();
  // It applies nothing that its own disk does not have, so others would wait for it: its heartbeats
  // say that it is there (10.7).
  if (role_ == Role::kLeader && persist_late()) Resign();
  if (role_ != Role::kLeader) return;
  for (auto& [id, peer] : peers_) peer.LookAtMatch(now_ticks_, commit_);
  if (transferee_ != kNoServer && ++transfer_ticks_ >= options_.election_ticks) {
    transferee_ = kNoServer;
  }
  if (++heartbeat_elapsed_ < options_.heartbeat_ticks) return;
  heartbeat_elapsed_ = 0;
  SendHeartbeats(/*learners_too=*/true);
  ContinueTransfer();
}

// A leader that no quorum answers resigns: its clients go elsewhere, and whom it still reaches does
// not cling to it.
void Raft::CheckQuorum() {
  if (Mutant("P103NoCheckQuorum")) return;
  const std::uint64_t heard = QuorumValue(configuration().voters, [this](ServerId id) {
    const auto peer = peers_.find(id);
    return peer == peers_.end() ? now_ticks_ : peer->second.last_heard;
  });
  if (now_ticks_ - heard >= options_.election_ticks) Resign();
}

void Raft::Resign() { BecomeFollower(hard_state_.term, kNoServer); }

absl::Status Raft::Transfer(ServerId to) {
  if (role_ != Role::kLeader) return NotLeader();
  if (to == options_.id) return absl::OkStatus();
  if (!configuration().IsVoter(to)) {
    return absl::InvalidArgumentError(absl::StrFormat("server=%x: not a voter", to.value()));
  }
  transferee_ = to;
  transfer_ticks_ = 0;
  ContinueTransfer();
  return absl::OkStatus();
}

// Once the successor has everything; again at each heartbeat, as the message may be lost.
void Raft::ContinueTransfer() {
  const auto peer = peers_.find(transferee_);
  if (peer == peers_.end() || peer->second.match != log_.last_index()) return;
  Send(MakeMessage(MessageType::kTimeoutNow, transferee_), Claim::kHardState);
}

// Campaigns at once, and past the stickiness of those who hear the leader: it is the leader's wish.
void Raft::ReceiveTimeoutNow(const Message& m) {
  if (role_ != Role::kFollower || leader_ != m.from || !CanCampaign()) return;
  // What is not durable would not count, and might be needed (10.7).
  if (!log_.all_persisted() && !Mutant("P107TimeoutNowWhileUnpersisted")) return;
  BeginCampaign(/*pre_vote=*/false, /*force=*/true);
}

}  // namespace ring::consensus
