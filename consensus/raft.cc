#include "consensus/raft.h"

#include <algorithm>
#include <utility>

#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::consensus {
namespace {

RaftLog MakeLog(const InitialState& initial, std::vector<Entry> entries) {
  if (initial.snapshot == nullptr) return RaftLog(0, 0, {}, std::move(entries));
  const Snapshot& snapshot = *initial.snapshot;
  return RaftLog(snapshot.index, snapshot.term, snapshot.configuration, std::move(entries));
}

bool IsVoteRequest(MessageType type) {
  return type == MessageType::kPreVote || type == MessageType::kVote;
}

// Messages that only the leader of their term sends.
bool IsFromLeader(MessageType type) {
  return type == MessageType::kAppend || type == MessageType::kHeartbeat ||
         type == MessageType::kSnapshot || type == MessageType::kTimeoutNow;
}

}  // namespace

Raft::Raft(const Options& options, InitialState initial)
    : options_(options),
      hard_state_(initial.hard_state),
      emitted_hard_state_(initial.hard_state),
      persisted_hard_state_(initial.hard_state),
      log_(MakeLog(initial, std::move(initial.entries))),
      last_request_id_(options.nonce),
      snapshot_(std::move(initial.snapshot)) {
  RING_CHECK(options_.id != kNoServer);
  RING_CHECK(options_.heartbeat_ticks > 0 && options_.election_ticks > 2 * options_.heartbeat_ticks)
      << "election_ticks=" << options_.election_ticks;
  RING_CHECK(options_.message_size_max >= 1024 && options_.in_flight_max > 0);
  commit_ = applied_ = log_.base_index();
  if (snapshot_ != nullptr && snapshot_->index > 0) restore_ = snapshot_;
}

void Raft::Tick(std::uint64_t random) {
  ++now_ticks_;
  random_ = random;
  if (election_timeout_ == 0) {
    election_timeout_ = options_.election_ticks + random % options_.election_ticks;
  }
  if (role_ == Role::kLeader) {
    TickLeader();
  } else {
    TickFollower();
  }
  TickReads();
}

void Raft::Receive(Message m) {
  if (m.to != options_.id || m.from == options_.id || m.from == kNoServer) return;
  if (IsVoteRequest(m.type)) {
    ReceiveVoteRequest(m);
    return;
  }
  // Answers of a server that was removed: its term is nobody's business any more (10.3).
  if (role_ == Role::kLeader && !IsFromLeader(m.type) && !configuration().Contains(m.from)) return;
  if (m.term > hard_state_.term && !FromTheFuture(m)) return;
  if (m.term < hard_state_.term) {
    AnswerThePast(m);
    return;
  }
  Dispatch(m);
}

// Takes over a higher term. False when the message is done with.
bool Raft::FromTheFuture(const Message& m) {
  if (m.type == MessageType::kPreVoteReply && !m.reject) {
    ReceiveVoteReply(m);  // its term is the one that was asked for
    return false;
  }
  BecomeFollower(m.term, IsFromLeader(m.type) ? m.from : kNoServer);
  return true;
}

// A leader that was deposed hears of it; all else from earlier terms is void.
void Raft::AnswerThePast(const Message& m) {
  if (!IsFromLeader(m.type) || m.type == MessageType::kTimeoutNow) return;
  Message reply = MakeMessage(MessageType::kAppendReply, m.from);
  reply.reject = true;
  Send(std::move(reply), Claim::kHardState);
}

void Raft::Dispatch(Message& m) {
  switch (m.type) {
    case MessageType::kPreVoteReply:
    case MessageType::kVoteReply:
      return ReceiveVoteReply(m);
    case MessageType::kAppend:
      return ReceiveAppend(m);
    case MessageType::kAppendReply:
      return ReceiveAppendReply(m);
    case MessageType::kHeartbeat:
      return ReceiveHeartbeat(m);
    case MessageType::kHeartbeatReply:
      return ReceiveHeartbeatReply(m);
    case MessageType::kSnapshot:
      return ReceiveSnapshot(m);
    case MessageType::kSnapshotReply:
      return ReceiveSnapshotReply(m);
    case MessageType::kTimeoutNow:
      return ReceiveTimeoutNow(m);
    case MessageType::kReadRequest:
      return ReceiveReadRequest(m);
    case MessageType::kReadReply:
      return ReceiveReadReply(m);
    case MessageType::kPreVote:
    case MessageType::kVote:
      break;
  }
}

void Raft::Persisted(std::uint64_t id, bool ok) {
  RING_CHECK(persist_under_way_ && id == persist_id_) << "persist_id=" << id;
  persist_under_way_ = false;
  if (!ok && !Mutant("P107GoOnAfterFailedPersist")) {
    // What is durable of it is not known; it is written again, and nobody hears of it until then.
    log_.Refuse();
    emitted_hard_state_ = persisted_hard_state_;
    // But for our own snapshot, which promised nothing: a disk without room for it may have some
    // for the log. Should it be durable all the same, so is all that it stands for.
    if (pending_emitted_ && !pending_replaces_) pending_snapshot_ = nullptr;
    pending_emitted_ = false;
    held_.clear();
    persist_failed_ = true;
    persist_not_before_ = now_ticks_ + 1;
    if (role_ != Role::kFollower) Resign();
    return;
  }
  persist_failed_ = false;
  persisted_hard_state_ = emitted_hard_state_;
  log_.Confirm();
  if (pending_emitted_) SnapshotPersisted();
  ReleaseHeld();
  if (role_ == Role::kCandidate && persisted_hard_state_ == hard_state_) {
    votes_[options_.id] = true;
    CountVotes();
  } else if (role_ == Role::kLeader) {
    MaybeCommit();
  }
}

Ready Raft::TakeReady() {
  Ready ready;
  if (role_ == Role::kLeader) ReplicateToAll();
  EmitPersist(ready);
  HandOut(ready);
  ready.messages = std::move(outbox_);
  outbox_.clear();
  return ready;
}

void Raft::BecomeFollower(Term term, ServerId leader) {
  if (term > hard_state_.term) SetTerm(term, kNoServer);
  if (role_ == Role::kLeader) {
    peers_.clear();
    transferee_ = kNoServer;
    ResetElectionTimer();
  }
  // A campaign that is given up is not announced: what it claimed may be truncated by then.
  std::erase_if(held_, [](const HeldMessage& held) { return IsVoteRequest(held.message.type); });
  FailReads();
  role_ = Role::kFollower;
  leader_ = leader;
  votes_.clear();
}

void Raft::SetTerm(Term term, ServerId vote) {
  hard_state_ = {term, vote};
  // What an earlier term acknowledged may be truncated before it becomes durable: nobody hears it.
  held_.clear();
}

void Raft::ResetElectionTimer() {
  silence_ticks_ = 0;
  election_timeout_ = 0;
}

Message Raft::MakeMessage(MessageType type, ServerId to) const {
  Message m;
  m.type = type;
  m.from = options_.id;
  m.to = to;
  m.term = hard_state_.term;
  return m;
}

bool Raft::dirty() const {
  return hard_state_dirty() || log_.HasUnemitted() ||
         (pending_snapshot_ != nullptr && !pending_emitted_);
}

// The request that makes the claim true; 0 when it is true already.
std::uint64_t Raft::PersistIdFor(Claim claim) const {
  if (Mutant("P101SendBeforePersist")) return 0;
  const bool unemitted = claim == Claim::kLog ? dirty() : hard_state_dirty();
  if (unemitted) return persist_id_ + 1;
  const bool emitted = claim == Claim::kLog ? true : emitted_hard_state_ != persisted_hard_state_;
  return persist_under_way_ && emitted ? persist_id_ : 0;
}

void Raft::Send(Message m, Claim claim) {
  const std::uint64_t persist_id = PersistIdFor(claim);
  if (persist_id == 0) {
    outbox_.push_back(std::move(m));
    return;
  }
  if (m.type == MessageType::kAppendReply && !m.reject) {
    // A leader goes on asking while a disk stands still (F11): one answer says what all would.
    const auto same = std::find_if(held_.begin(), held_.end(), [&](const HeldMessage& held) {
      const Message& other = held.message;
      return held.persist_id == persist_id && other.type == m.type && !other.reject &&
             other.to == m.to && other.term == m.term;
    });
    if (same != held_.end()) {
      same->message.index = std::max(same->message.index, m.index);
      return;
    }
  }
  held_.push_back({persist_id, std::move(m)});
}

void Raft::ReleaseHeld() {
  while (!held_.empty() && held_.front().persist_id <= persist_id_) {
    outbox_.push_back(std::move(held_.front().message));
    held_.pop_front();
  }
}

void Raft::EmitPersist(Ready& ready) {
  // A disk that failed and is owed nothing is given term and vote once more: else nothing would
  // show that it takes writes again.
  const bool probes = persist_failed_ && !dirty();
  if (persist_under_way_ || (!dirty() && !probes) || now_ticks_ < persist_not_before_) return;
  PersistRequest request;
  request.id = ++persist_id_;
  if (hard_state_dirty() || probes) request.hard_state = hard_state_;
  emitted_hard_state_ = hard_state_;
  if (pending_snapshot_ != nullptr) {
    request.snapshot = pending_snapshot_;
    request.snapshot_replaces_log = pending_replaces_;
    pending_emitted_ = true;
  }
  const absl::Span<const Entry> entries = log_.Emit();
  request.entries.assign(entries.begin(), entries.end());
  ready.persist = std::move(request);
  persist_under_way_ = true;
  persist_since_ = now_ticks_;
}

void Raft::HandOut(Ready& ready) {
  ready.restore = std::move(restore_);
  restore_ = nullptr;
  // A leader's snapshot that is not durable yet comes before all that follows.
  const bool installing = pending_snapshot_ != nullptr && pending_replaces_;
  const LogIndex last = std::min(commit_, log_.persisted());
  if (!installing && last > applied_) {
    const absl::Span<const Entry> entries = log_.Range(applied_ + 1, last);
    ready.committed.assign(entries.begin(), entries.end());
    applied_ = last;
  }
  ready.reads = std::move(answered_reads_);
  answered_reads_.clear();
  ready.failed_reads = std::move(failed_reads_);
  failed_reads_.clear();
}

std::vector<PeerStatus> Raft::Peers() const {
  std::vector<PeerStatus> peers;
  peers.reserve(peers_.size());
  for (const auto& [id, peer] : peers_) {
    peers.push_back({id, configuration().IsVoter(id), peer.match, now_ticks_ - peer.last_heard,
                     now_ticks_ - peer.moved, peer.state});
  }
  return peers;
}

}  // namespace ring::consensus
