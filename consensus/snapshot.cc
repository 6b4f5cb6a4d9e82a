// Snapshots: our own, which let the log go, and a leader's, which comes in chunks.
#include <algorithm>
#include <utility>

#include "consensus/raft.h"
#include "ring/base/check.h"

namespace ring::consensus {

void Raft::Compact(SnapshotRef snapshot) {
  RING_CHECK(snapshot->index <= applied_) << "index=" << snapshot->index;
  if (pending_snapshot_ != nullptr || snapshot->index <= log_.base_index() ||
      (snapshot_ != nullptr && snapshot->index <= snapshot_->index) ||
      snapshot->configuration.empty()) {
    return;
  }
  RING_CHECK(log_.TermAt(snapshot->index) == snapshot->term) << "index=" << snapshot->index;
  pending_snapshot_ = std::move(snapshot);
  pending_replaces_ = pending_emitted_ = false;
}

void Raft::SnapshotPersisted() {
  snapshot_ = std::move(pending_snapshot_);
  pending_snapshot_ = nullptr;
  pending_emitted_ = false;
  if (std::exchange(pending_replaces_, false)) {
    restore_ = snapshot_;
    applied_ = snapshot_->index;
    return;
  }
  // Peers that lag a little shall not need the snapshot.
  const LogIndex keep = std::min(snapshot_->index, options_.trailing_entries);
  log_.CompactTo(std::max(log_.base_index(), snapshot_->index - keep));
}

void Raft::BeginSnapshot(Progress& peer) {
  RING_CHECK(snapshot_ != nullptr) << "base=" << log_.base_index();
  if (encoded_of_ != snapshot_) {
    encoded_ = std::make_shared<const std::string>(EncodeSnapshot(*snapshot_));
    encoded_of_ = snapshot_;
  }
  peer.BecomeProbe(peer.match + 1);
  peer.state = SendState::kSnapshot;
  peer.snapshot = snapshot_;
  peer.snapshot_bytes = encoded_;
  peer.snapshot_acked = peer.snapshot_reported = peer.snapshot_sent = 0;
  peer.snapshot_moved = true;
}

void Raft::SendSnapshotChunks(ServerId to, Progress& peer) {
  const std::string& bytes = *peer.snapshot_bytes;
  const std::size_t chunk_max = options_.message_size_max - kSnapshotOverhead;
  const std::size_t window = chunk_max * options_.in_flight_max;
  while (peer.snapshot_sent < bytes.size() && peer.snapshot_sent - peer.snapshot_acked < window) {
    Message m = MakeMessage(MessageType::kSnapshot, to);
    m.index = peer.snapshot->index;
    m.log_term = peer.snapshot->term;
    m.offset = peer.snapshot_sent;
    m.total = bytes.size();
    m.data = bytes.substr(peer.snapshot_sent, chunk_max);
    peer.snapshot_sent += m.data.size();
    Send(std::move(m), Claim::kHardState);
  }
}

void Raft::ReceiveSnapshot(Message& m) {
  if (!FollowLeader(m)) return;
  if (m.index > commit_) {
    if (incoming_.index != m.index || incoming_.term != m.log_term || incoming_.total != m.total) {
      incoming_ = {m.index, m.log_term, m.total, {}};
    }
    if (m.offset == incoming_.bytes.size()) incoming_.bytes.append(m.data);
    if (incoming_.bytes.size() == incoming_.total) {
      InstallSnapshot(std::exchange(incoming_, {}).bytes);
    }
  }
  if (m.index <= commit_) {
    Message reply = MakeMessage(MessageType::kAppendReply, m.from);
    reply.index = commit_;
    Send(std::move(reply), Claim::kLog);
    return;
  }
  Message reply = MakeMessage(MessageType::kSnapshotReply, m.from);
  reply.index = m.index;
  reply.offset = incoming_.bytes.size();
  Send(std::move(reply), Claim::kHardState);
}

void Raft::InstallSnapshot(const std::string& bytes) {
  absl::StatusOr<Snapshot> snapshot = DecodeSnapshot(bytes);
  // Bytes that are no snapshot are fetched again.
  if (!snapshot.ok() || snapshot->index <= commit_) return;
  if (log_.TermAt(snapshot->index) == snapshot->term) {
    CommitTo(snapshot->index);  // everything is here already
    return;
  }
  pending_snapshot_ = std::make_shared<const Snapshot>(*std::move(snapshot));
  pending_replaces_ = true;
  pending_emitted_ = false;
  log_.Reset(*pending_snapshot_);
  commit_ = pending_snapshot_->index;
}

void Raft::ReceiveSnapshotReply(const Message& m) {
  const auto found = peers_.find(m.from);
  if (role_ != Role::kLeader || found == peers_.end()) return;
  Progress& peer = found->second;
  peer.last_heard = now_ticks_;
  if (peer.state != SendState::kSnapshot || m.index != peer.snapshot->index ||
      m.offset > peer.snapshot_bytes->size()) {
    return;
  }
  peer.snapshot_reported = m.offset;
  if (m.offset > peer.snapshot_acked) {
    peer.snapshot_acked = m.offset;
    peer.snapshot_sent = std::max(peer.snapshot_sent, m.offset);
    peer.snapshot_moved = true;
  }
}

}  // namespace ring::consensus
