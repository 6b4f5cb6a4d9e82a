// consensus/raft.h — one server of the consensus, without clock, thread, randomness or I/O.
//
// What:      Raft: takes ticks, messages, proposals, reads and outcomes of persists; what it wants
//            done is collected by TakeReady. Pre-vote, check-quorum and vote stickiness (10.3),
//            changes of one voter at a time (10.4), ReadIndex (10.5), snapshots in chunks.
// Shape:     any number of calls, then TakeReady: their persists are one request.
// Units:     time in ticks; a tick brings a random number with it.
// Ownership: owns its log; a Ready is the caller's.
// Threads:   thread-compatible.
// Errors:    kUnavailable "not the leader ..." (nothing happened), kResourceExhausted (a bound),
//            kInvalidArgument, kFailedPrecondition (a change that may not begin now). Anything a
//            message says is checked or harmless; a broken invariant ends the process.
// Source:    Ongaro's dissertation (2014); rules 10.1 to 10.9, whose numbers the comments
//            and test names cite.
#ifndef RING_CONSENSUS_RAFT_H_
#define RING_CONSENSUS_RAFT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/message.h"
#include "consensus/progress.h"
#include "consensus/raft_log.h"
#include "consensus/ready.h"
#include "consensus/types.h"

namespace ring::consensus {

// Where a proposal stands in the log. Committed is what is applied at this index if it has this
// term; an entry of another term there means that it will never be applied.
struct Position {
  Term term = 0;
  LogIndex index = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

class Raft {
 public:
  // REQUIRES: options.id is not kNoServer; the initial configuration is empty or valid.
  Raft(const Options& options, InitialState initial);

  // A unit of time passed. `random` decides only when this server campaigns.
  void Tick(std::uint64_t random);
  // A message came. One that is not addressed to this very server id is dropped (10.6).
  void Receive(Message message);
  // The outcome of the persist request that is under way. A failed one makes a leader resign; what
  // it held is asked for again from the next tick on (10.7), but for an own snapshot.
  void Persisted(std::uint64_t id, bool ok);

  absl::StatusOr<Position> Propose(std::string data);
  // The configuration as it shall be. One voter more or less than now at most, a new voter a
  // learner that has caught up; learners may change at will (10.4).
  absl::StatusOr<Position> ProposeConfiguration(const Configuration& next);
  // Asks for a read index; the outcome comes in Ready::reads or Ready::failed_reads.
  absl::Status Read(std::uint64_t context);
  // Hands leadership over to a voter; proposals are refused until it is done or given up.
  absl::Status Transfer(ServerId to);
  // Campaigns without waiting: the first voter of a new cluster need not be silent for a while.
  absl::Status Campaign();
  // The state machine's snapshot: the log up to it may go once it is durable. Ignored when it is
  // older than another, or while a leader's is being installed; given up when it cannot be
  // persisted at once.
  void Compact(SnapshotRef snapshot);

  Ready TakeReady();

  ServerId id() const { return options_.id; }
  Role role() const { return role_; }
  // kNoServer when it is not known.
  ServerId leader() const { return leader_; }
  Term term() const { return hard_state_.term; }
  ServerId vote() const { return hard_state_.vote; }
  LogIndex commit_index() const { return commit_; }
  // What a new snapshot may stand for at most.
  LogIndex applied_index() const { return applied_; }
  const RaftLog& log() const { return log_; }
  const Configuration& configuration() const { return log_.configuration(); }
  bool configuration_committed() const { return log_.configuration_index() <= commit_; }
  const SnapshotRef& snapshot() const { return snapshot_; }
  // The leader's: whether the no-op of its term is committed, so that it serves reads and changes.
  bool tenure_begun() const { return role_ == Role::kLeader && commit_ >= tenure_start_; }
  // The leader's knowledge of the others, by id; empty at any other server.
  std::vector<PeerStatus> Peers() const;
  // The last persist failed, and none succeeded since: this server neither leads nor campaigns.
  bool persist_failed() const { return persist_failed_; }
  // A persist is under way for as long as several elections take: neither does it then.
  bool persist_late() const {
    return persist_under_way_ &&
           now_ticks_ - persist_since_ >= kPersistPatience * options_.election_ticks;
  }

 private:
  // Elections. Disks that all hesitate at one time must not cost the cluster its leader.
  static constexpr std::uint64_t kPersistPatience = 8;
  // What a message claims, and must therefore wait for (10.1).
  enum class Claim : std::uint8_t {
    kHardState,  // the sender's term, and its vote
    kLog,        // also all that is in its log
  };
  struct HeldMessage {
    std::uint64_t persist_id;
    Message message;
  };
  // Reads that share one round of heartbeats at the leader.
  struct PendingRead {
    ServerId from;  // this server, or a follower that asked
    std::uint64_t context;
  };
  struct ReadBatch {
    std::uint64_t round = 0;
    LogIndex index = 0;
    std::vector<PendingRead> reads;
  };
  // A follower's reads that share one request to the leader.
  struct ReadRequest {
    std::uint64_t id = 0;
    std::uint64_t age_ticks = 0;
    std::vector<std::uint64_t> contexts;
  };
  struct IncomingSnapshot {
    LogIndex index = 0;
    Term term = 0;
    std::uint64_t total = 0;
    std::string bytes;
  };

  // raft.cc
  void BecomeFollower(Term term, ServerId leader);
  void SetTerm(Term term, ServerId vote);
  void ResetElectionTimer();
  bool SelfIsVoter() const { return configuration().IsVoter(options_.id); }
  bool FromTheFuture(const Message& m);
  void AnswerThePast(const Message& m);
  void Dispatch(Message& m);
  Message MakeMessage(MessageType type, ServerId to) const;
  void Send(Message m, Claim claim);
  bool hard_state_dirty() const { return hard_state_ != emitted_hard_state_; }
  bool dirty() const;
  std::uint64_t PersistIdFor(Claim claim) const;
  void EmitPersist(Ready& ready);
  void ReleaseHeld();
  void HandOut(Ready& ready);

  // election.cc
  bool ElectionNeedsSelf() const;
  bool CanCampaign() const;
  void BeginCampaign(bool pre_vote, bool force);
  void BecomeCandidate(bool force);
  void BecomeLeader();
  void RequestVotes(MessageType type, Term term, bool force);
  bool HearsALeader() const;
  void ReceiveVoteRequest(const Message& m);
  void ReceiveVoteReply(const Message& m);
  void CountVotes();
  void TickFollower();
  void TickLeader();
  void CheckQuorum();
  void Resign();
  void ContinueTransfer();
  void ReceiveTimeoutNow(const Message& m);

  // replication.cc
  void ReplicateToAll();
  void SendAppend(ServerId to, Progress& peer, bool even_empty);
  bool TakeEntries(const Progress& peer, Message& m) const;
  void SendHeartbeat(ServerId to, const Progress& peer);
  void SendHeartbeats(bool learners_too);
  bool FollowLeader(const Message& m);
  void ReceiveAppend(Message& m);
  void AppendFrom(Message& m);
  void RefuseAppend(const Message& m);
  void ReceiveAppendReply(const Message& m);
  void BackUp(const Message& m, Progress& peer);
  void ReceiveHeartbeat(const Message& m);
  void ReceiveHeartbeatReply(const Message& m);
  void MaybeCommit();
  void CommitTo(LogIndex index);
  Position AppendOwn(EntryKind kind, std::string data);
  absl::Status NotLeader() const;

  // reads.cc
  void ReceiveReadRequest(const Message& m);
  void ReceiveReadReply(const Message& m);
  void StartReadRound();
  void ConfirmReads();
  void AnswerBatch();
  void ForwardReads();
  void TickReads();
  void FailReads();

  // membership.cc
  absl::Status CheckChange(const Configuration& next) const;
  absl::Status CheckVoterChange(const Configuration& next) const;
  void ConfigurationChanged();
  void LeaveIfRemoved();

  // snapshot.cc
  void BeginSnapshot(Progress& peer);
  void SendSnapshotChunks(ServerId to, Progress& peer);
  void ReceiveSnapshot(Message& m);
  void InstallSnapshot(const std::string& bytes);
  void ReceiveSnapshotReply(const Message& m);
  void SnapshotPersisted();

  const Options options_;
  HardState hard_state_;
  HardState emitted_hard_state_;    // given to the storage
  HardState persisted_hard_state_;  // known durable
  RaftLog log_;
  LogIndex commit_ = 0;
  LogIndex applied_ = 0;  // handed out

  Role role_ = Role::kFollower;
  ServerId leader_ = kNoServer;
  std::uint64_t now_ticks_ = 0;
  std::uint64_t silence_ticks_ = 0;     // since a leader was heard, a vote given, a campaign begun
  std::uint64_t election_timeout_ = 0;  // 0: drawn at the next tick
  std::uint64_t heartbeat_elapsed_ = 0;
  std::uint64_t random_ = 0;

  std::map<ServerId, bool> votes_;  // ordered: what is iterated must replay

  std::map<ServerId, Progress> peers_;  // a leader's: every other server of the configuration
  LogIndex tenure_start_ = 0;           // the no-op's index
  std::size_t uncommitted_size_ = 0;
  ServerId transferee_ = kNoServer;
  std::uint64_t transfer_ticks_ = 0;

  std::uint64_t round_ = 0;
  ReadBatch batch_;                        // under way when round != 0
  std::vector<PendingRead> queued_reads_;  // wait for the next round
  ReadRequest request_;                    // under way when id != 0
  std::vector<std::uint64_t> unsent_reads_;
  std::uint64_t last_request_id_;
  std::vector<ReadState> answered_reads_;
  std::vector<std::uint64_t> failed_reads_;

  SnapshotRef snapshot_;          // durable
  SnapshotRef pending_snapshot_;  // to be persisted
  bool pending_replaces_ = false;
  bool pending_emitted_ = false;
  SnapshotRef restore_;
  IncomingSnapshot incoming_;
  SnapshotRef encoded_of_;  // what encoded_ is the encoding of
  std::shared_ptr<const std::string> encoded_;

  std::uint64_t persist_id_ = 0;  // of the last request
  bool persist_under_way_ = false;
  bool persist_failed_ = false;
  std::uint64_t persist_not_before_ = 0;  // tick
  std::uint64_t persist_since_ = 0;       // tick in which the one under way began
  std::deque<HeldMessage> held_;
  std::vector<Message> outbox_;
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_RAFT_H_
