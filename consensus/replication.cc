// Log replication: entries and heartbeats to the peers, their answers, and what is committed
// (10.1, 10.2).
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "consensus/raft.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::consensus {

absl::Status Raft::NotLeader() const {
  return absl::UnavailableError(absl::StrFormat("not the leader; leader=%x", leader_.value()));
}

absl::StatusOr<Position> Raft::Propose(std::string data) {
  if (role_ != Role::kLeader) return NotLeader();
  if (transferee_ != kNoServer) {
    return absl::UnavailableError(
        absl::StrFormat("leadership is being handed over; leader=%x", transferee_.value()));
  }
  if (data.size() + kAppendOverhead + kEntryOverhead > options_.message_size_max) {
    return absl::InvalidArgumentError(
        absl::StrFormat("proposal_size=%d: at most %d", data.size(),
                        options_.message_size_max - kAppendOverhead - kEntryOverhead));
  }
  if (uncommitted_size_ + data.size() > options_.uncommitted_size_max) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("uncommitted_size=%d: wait for commits", uncommitted_size_));
  }
  return AppendOwn(EntryKind::kCommand, std::move(data));
}

Position Raft::AppendOwn(EntryKind kind, std::string data) {
  const Position position{hard_state_.term, log_.last_index() + 1};
  uncommitted_size_ += data.size();
  log_.Append({position.term, position.index, kind, std::move(data)});
  return position;
}

void Raft::ReplicateToAll() {
  for (auto& [id, peer] : peers_) {
    // A peer that has the entries is told of the commit; one that has not learns it with them.
    SendAppend(id, peer, /*even_empty=*/commit_ > peer.commit_sent);
  }
}

// All that may be sent now; an append without entries when `even_empty` says so and nothing else
// is.
void Raft::SendAppend(ServerId to, Progress& peer, bool even_empty) {
  do {
    if (peer.state == SendState::kSnapshot) return SendSnapshotChunks(to, peer);
    if (peer.state == SendState::kProbe && peer.probe_under_way) return;
    if (peer.state == SendState::kReplicate && peer.in_flight.size() >= options_.in_flight_max) {
      return;
    }
    Message m = MakeMessage(MessageType::kAppend, to);
    if (!TakeEntries(peer, m)) {
      BeginSnapshot(peer);
      continue;
    }
    if (m.entries.empty() && !even_empty && peer.state != SendState::kProbe) return;
    const LogIndex last = m.index + m.entries.size();
    if (peer.state == SendState::kProbe) {
      peer.probe_under_way = true;
    } else if (!m.entries.empty()) {
      peer.next = last + 1;
      peer.in_flight.push_back(last);
    }
    peer.commit_sent = std::max(peer.commit_sent, std::min(commit_, last));
    even_empty = false;
    Send(std::move(m), Claim::kHardState);
  } while (peer.next <= log_.last_index());
}

// Entries from peer.next on, as many as a message holds. False when they are compacted.
bool Raft::TakeEntries(const Progress& peer, Message& m) const {
  m.index = peer.next - 1;
  const std::optional<Term> term = log_.TermAt(m.index);
  if (!term.has_value()) return false;
  m.log_term = *term;
  m.commit = commit_;
  std::size_t room = options_.message_size_max - kAppendOverhead;
  for (const Entry& entry : log_.Range(peer.next, log_.last_index())) {
    const std::size_t size = kEntryOverhead + entry.data.size();
    if (size > room && !m.entries.empty()) break;
    m.entries.push_back(entry);
    room -= std::min(room, size);
  }
  return true;
}

void Raft::SendHeartbeat(ServerId to, const Progress& peer) {
  Message m = MakeMessage(MessageType::kHeartbeat, to);
  m.commit = std::min(commit_, peer.match);  // the peer's log is ours up to there
  m.round = round_;
  Send(std::move(m), Claim::kHardState);
}

void Raft::SendHeartbeats(bool learners_too) {
  for (auto& [id, peer] : peers_) {
    if (!learners_too && !configuration().IsVoter(id)) continue;
    SendHeartbeat(id, peer);
    if (!learners_too || peer.state != SendState::kSnapshot) continue;
    // Chunks without an answer for a heartbeat are sent again, from what the receiver has.
    if (!std::exchange(peer.snapshot_moved, false)) {
      peer.snapshot_acked = peer.snapshot_sent = peer.snapshot_reported;
    }
  }
}

// The sender leads this term. False when that cannot be, as this server does.
bool Raft::FollowLeader(const Message& m) {
  if (role_ == Role::kLeader) return false;
  if (role_ != Role::kFollower || leader_ != m.from) BecomeFollower(m.term, m.from);
  ResetElectionTimer();
  return true;
}

void Raft::ReceiveAppend(Message& m) {
  if (!FollowLeader(m)) return;
  if (m.index >= commit_) {
    const std::optional<Term> term = log_.TermAt(m.index);
    if (!term.has_value() || *term != m.log_term) return RefuseAppend(m);
    AppendFrom(m);
  }
  Message reply = MakeMessage(MessageType::kAppendReply, m.from);
  reply.index = m.index < commit_ ? commit_ : m.index + m.entries.size();
  CommitTo(std::min(m.commit, reply.index));
  Send(std::move(reply), Claim::kLog);
}

void Raft::AppendFrom(Message& m) {
  for (Entry& entry : m.entries) {
    if (const std::optional<Term> term = log_.TermAt(entry.index); term.has_value()) {
      if (*term == entry.term) continue;
      RING_CHECK(entry.index > commit_)
          << "server=" << options_.id.value()
          << ": a committed entry would be replaced, index=" << entry.index
          << " leader=" << m.from.value() << " term=" << m.term;
      log_.TruncateFrom(entry.index);
    }
    log_.Append(std::move(entry));
  }
}

// Tells the leader the last place where the logs may agree, so that it skips whole terms.
void Raft::RefuseAppend(const Message& m) {
  Message reply = MakeMessage(MessageType::kAppendReply, m.from);
  reply.reject = true;
  reply.index = m.index;
  reply.hint = log_.LastWithTermUpTo(m.index, m.log_term);
  reply.log_term = *log_.TermAt(reply.hint);
  Send(std::move(reply), Claim::kHardState);
}

void Raft::ReceiveAppendReply(const Message& m) {
  const auto found = peers_.find(m.from);
  if (role_ != Role::kLeader || found == peers_.end()) return;
  Progress& peer = found->second;
  peer.last_heard = now_ticks_;
  if (m.reject) return BackUp(m, peer);
  if (m.index > log_.last_index()) return;
  peer.Acknowledge(m.index);
  // A snapshot that arrived may be an old one by now: then another follows.
  if (peer.state == SendState::kProbe ||
      (peer.state == SendState::kSnapshot && peer.match >= peer.snapshot->index)) {
    peer.BecomeReplicate();
  }
  if (m.from == transferee_) ContinueTransfer();
  MaybeCommit();
}

void Raft::BackUp(const Message& m, Progress& peer) {
  if (m.index <= peer.match || peer.state == SendState::kSnapshot) return;
  if (peer.state == SendState::kReplicate) {
    peer.BecomeProbe(peer.match + 1);
    return;
  }
  if (m.index != peer.next - 1) return;  // an answer to an earlier probe
  const LogIndex agree = log_.LastWithTermUpTo(std::min(m.hint, m.index - 1), m.log_term);
  peer.BecomeProbe(agree + 1);
}

void Raft::ReceiveHeartbeat(const Message& m) {
  if (!FollowLeader(m)) return;
  CommitTo(std::min(m.commit, log_.last_index()));
  Message reply = MakeMessage(MessageType::kHeartbeatReply, m.from);
  reply.round = m.round;
  Send(std::move(reply), Claim::kHardState);
}

void Raft::ReceiveHeartbeatReply(const Message& m) {
  const auto found = peers_.find(m.from);
  if (role_ != Role::kLeader || found == peers_.end() || m.round > round_) return;
  Progress& peer = found->second;
  peer.last_heard = now_ticks_;
  peer.round = std::max(peer.round, m.round);
  peer.probe_under_way = false;
  if (peer.match < log_.last_index() && peer.state == SendState::kReplicate) {
    // Whatever was sent may be lost: an append behind it is refused then.
    if (peer.in_flight.size() >= options_.in_flight_max) peer.in_flight.pop_front();
    SendAppend(m.from, peer, /*even_empty=*/true);
  }
  ConfirmReads();
}

// Nor is anything that its own disk has not got: nobody applied it then, and a read need not wait
// for it. Otherwise all reads, and with them all leases (L1), would hang on one disk (10.7).
void Raft::MaybeCommit() {
  const LogIndex quorum = QuorumValue(configuration().voters, [this](ServerId id) {
    if (id == options_.id) return log_.persisted();
    const auto peer = peers_.find(id);
    return peer == peers_.end() ? 0 : peer->second.match;
  });
  const LogIndex index = std::min(quorum, log_.persisted());
  // "Only log entries from the leader's current term are committed by counting replicas"
  // (dissertation 3.6.2; 10.2).
  if (index > commit_ &&
      (log_.TermAt(index) == hard_state_.term || Mutant("P102CommitOldTermsByCounting"))) {
    CommitTo(index);
  }
}

void Raft::CommitTo(LogIndex index) {
  if (index <= commit_) return;
  if (role_ == Role::kLeader) {
    for (const Entry& entry : log_.Range(commit_ + 1, index)) {
      uncommitted_size_ -= std::min(uncommitted_size_, entry.data.size());
    }
  }
  commit_ = index;
  if (role_ == Role::kLeader) {
    StartReadRound();
    LeaveIfRemoved();
  }
}

}  // namespace ring::consensus
