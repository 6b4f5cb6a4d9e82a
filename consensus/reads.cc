// Linearizable reads by ReadIndex (10.5): the leader notes its commit index, and answers when a
// quorum has answered heartbeats that were sent afterwards. A follower asks the leader for the
// index.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "consensus/raft.h"
#include "ring/base/mutant.h"

namespace ring::consensus {

absl::Status Raft::Read(std::uint64_t context) {
  if (leader_ == kNoServer) return NotLeader();
  const std::size_t waiting =
      queued_reads_.size() + batch_.reads.size() + request_.contexts.size() + unsent_reads_.size();
  if (waiting >= options_.reads_max) {
    return absl::ResourceExhaustedError(absl::StrFormat("reads=%d: wait for answers", waiting));
  }
  if (role_ != Role::kLeader) {
    unsent_reads_.push_back(context);
    ForwardReads();
  } else if (Mutant("P105ReadWithoutRound")) {
    answered_reads_.push_back({context, commit_});
  } else if (Mutant("P105ReadJoinsRoundUnderWay") && batch_.round != 0) {
    batch_.index = commit_;
    batch_.reads.push_back({options_.id, context});
  } else {
    queued_reads_.push_back({options_.id, context});
    StartReadRound();
  }
  return absl::OkStatus();
}

// One round at a time: reads that come meanwhile share the next one.
void Raft::StartReadRound() {
  if (batch_.round != 0 || queued_reads_.empty()) return;
  // Until the no-op of its term is committed a leader does not know what is committed.
  if (!tenure_begun() && !Mutant("P105ReadBeforeNoop")) return;
  batch_.round = ++round_;
  batch_.index = commit_;
  batch_.reads = std::move(queued_reads_);
  queued_reads_.clear();
  SendHeartbeats(/*learners_too=*/false);
  ConfirmReads();
}

void Raft::ConfirmReads() {
  if (batch_.round == 0) return;
  const std::uint64_t confirmed = QuorumValue(configuration().voters, [this](ServerId id) {
    if (id == options_.id) return round_;
    const auto peer = peers_.find(id);
    return peer == peers_.end() ? 0 : peer->second.round;
  });
  if (confirmed < batch_.round) return;
  AnswerBatch();
  batch_ = {};
  StartReadRound();
}

void Raft::AnswerBatch() {
  for (const PendingRead& read : batch_.reads) {
    if (read.from == options_.id) {
      answered_reads_.push_back({read.context, batch_.index});
      continue;
    }
    Message reply = MakeMessage(MessageType::kReadReply, read.from);
    reply.index = batch_.index;
    reply.round = read.context;
    Send(std::move(reply), Claim::kHardState);
  }
}

void Raft::ReceiveReadRequest(const Message& m) {
  if (role_ != Role::kLeader) {
    Message reply = MakeMessage(MessageType::kReadReply, m.from);
    reply.round = m.round;
    reply.reject = true;
    Send(std::move(reply), Claim::kHardState);
    return;
  }
  if (queued_reads_.size() + batch_.reads.size() >= options_.reads_max) return;
  queued_reads_.push_back({m.from, m.round});
  StartReadRound();
}

void Raft::ForwardReads() {
  if (role_ == Role::kLeader || leader_ == kNoServer || request_.id != 0 || unsent_reads_.empty()) {
    return;
  }
  if (++last_request_id_ == 0) ++last_request_id_;
  request_ = {last_request_id_, 0, std::move(unsent_reads_)};
  unsent_reads_.clear();
  Message m = MakeMessage(MessageType::kReadRequest, leader_);
  m.round = request_.id;
  Send(std::move(m), Claim::kHardState);
}

void Raft::ReceiveReadReply(const Message& m) {
  if (request_.id == 0 || m.round != request_.id) return;  // of a request that was given up
  for (const std::uint64_t context : request_.contexts) {
    if (m.reject) {
      failed_reads_.push_back(context);
    } else {
      answered_reads_.push_back({context, m.index});
    }
  }
  request_ = {};
  ForwardReads();
}

// A request without an answer is given up for a new one with a new number, so that the reads which
// join it cannot be answered with an index from before they began.
void Raft::TickReads() {
  if (request_.id == 0 || ++request_.age_ticks < options_.election_ticks / 2) return;
  if (Mutant("P105RetryKeepsReadIndex")) {
    request_.contexts.insert(request_.contexts.end(), unsent_reads_.begin(), unsent_reads_.end());
    unsent_reads_.clear();
    request_.age_ticks = 0;
    return;
  }
  unsent_reads_.insert(unsent_reads_.begin(), request_.contexts.begin(), request_.contexts.end());
  request_ = {};
  ForwardReads();
}

// Leadership moved: the callers read again.
void Raft::FailReads() {
  for (const auto* reads : {&queued_reads_, &batch_.reads}) {
    for (const PendingRead& read : *reads) {
      if (read.from == options_.id) failed_reads_.push_back(read.context);
    }
  }
  failed_reads_.insert(failed_reads_.end(), request_.contexts.begin(), request_.contexts.end());
  failed_reads_.insert(failed_reads_.end(), unsent_reads_.begin(), unsent_reads_.end());
  queued_reads_.clear();
  batch_ = {};
  request_ = {};
  unsent_reads_.clear();
}

}  // namespace ring::consensus
