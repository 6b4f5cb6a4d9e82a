// consensus/replica.h — a replicated state machine: one Raft server, its storage, and what it
// applies.
//
// What:      Replica drives a Raft over a Storage and a StateMachine: proposals and reads with
//            callbacks, membership calls, snapshots by itself. PersistObserver for the `check`
//            fence.
// Shape:     calls and messages are taken at any time; Turn does the work they left: one durable
//            write for all of it, then messages, then entries applied, then callbacks. Call it once
//            after each batch of calls, and when a write that a storage went on with has ended.
// Units:     time in ticks, sizes in bytes.
// Ownership: borrows storage, state machine, listener and observer, which outlive it. Callbacks are
//            called in Turn, once each; those that are left are dropped with the replica.
// Threads:   thread-compatible; no thread, clock or I/O besides the storage. Callbacks may call the
//            replica, but not Turn.
// Errors:    kUnavailable: not the leader, nothing happened; leader() says who is. kUnknown: it may
//            happen or not (10.8: ask again with the same request id). kAborted: it will never
//            happen. Others: as Raft, or the state machine's own.
// Source:    rules 10.1 to 10.9; L1 for the observer.
#ifndef RING_CONSENSUS_REPLICA_H_
#define RING_CONSENSUS_REPLICA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "consensus/raft.h"
#include "consensus/storage.h"

namespace ring::consensus {

// What is replicated. All servers apply the same commands in the same order: each call's effect
// follows from its arguments and the calls before alone. Requests that may come twice are
// recognised here, by an id in the command (10.8).
class StateMachine {
 public:
  virtual ~StateMachine() = default;
  // The result goes to who proposed the command, if it did so at this server; an error is a result
  // like any other, and changes nothing.
  virtual absl::StatusOr<std::string> Apply(LogIndex index, absl::string_view data) = 0;
  // The whole state, and its replacement by one.
  virtual std::string Snapshot() = 0;
  virtual absl::Status Restore(absl::string_view bytes) = 0;
};

// Is told what is durable here, before any server hears of it: before the acknowledgement leaves,
// at a leader before it counts itself (L1, check).
class PersistObserver {
 public:
  virtual ~PersistObserver() = default;
  // At the start, and for every persist, in the order of the calls: a snapshot takes the place of
  // everything before; the entries at and behind `from` are gone; entries were added.
  virtual void OnSnapshot(const Snapshot& snapshot, bool replaces_log) = 0;
  virtual void OnTruncate(LogIndex from) = 0;
  virtual void OnAppend(absl::Span<const Entry> entries) = 0;
};

// Where messages go, and who hears of changes. Called in Turn.
class ReplicaListener {
 public:
  virtual ~ReplicaListener() = default;
  // May be lost, delayed, doubled and reordered on the way; at most options.raft.message_size_max.
  virtual void Send(ServerId to, std::string bytes) = 0;
  // Role, leader or term changed. Called before the callbacks of that turn.
  virtual void OnLeadership(Role role, ServerId leader, Term term) = 0;
  // The configuration that is committed changed.
  virtual void OnConfiguration(const Configuration& configuration) = 0;
};

struct ReplicaOptions {
  Options raft;
  // A snapshot is taken after so many entries, or so many bytes of them.
  LogIndex snapshot_entries = 4096;
  std::size_t snapshot_bytes = 4 * 1024 * 1024;
};

class Replica {
 public:
  using ProposeDone = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;
  using ReadDone = absl::AnyInvocable<void(absl::Status)>;
  using ChangeDone = absl::AnyInvocable<void(absl::Status)>;

  // Loads the storage and restores the state machine from its snapshot; entries behind it are
  // applied when they are known to be committed again. `observer` may be nullptr.
  // Errors: what the storage or the state machine gives.
  static absl::StatusOr<std::unique_ptr<Replica>> Start(const ReplicaOptions& options,
                                                        Storage& storage,
                                                        StateMachine& state_machine,
                                                        ReplicaListener& listener,
                                                        PersistObserver* observer);

  // Bytes that came from a server of this node, as the transport knows it. What is no message, and
  // what claims to be from another node's server, is counted and dropped: a majority is one of
  // nodes that said so themselves.
  void Receive(std::uint16_t node, absl::string_view bytes);
  void Tick(std::uint64_t random);
  void Turn();

  // `done` gets the state machine's result once the command is applied here, or a failure.
  void Propose(std::string data, ProposeDone done);
  // A linearizable barrier: at `done(OK)` this server has applied all that was committed anywhere
  // before the call. At any server that knows a leader.
  void Read(ReadDone done);

  // Changes the configuration, at the leader (10.4): what Raft::ProposeConfiguration takes, many
  // learners and one voter at once. done(OK) once committed. kFailedPrecondition: not now, ask
  // again.
  void ChangeConfiguration(const Configuration& next, ChangeDone done);
  absl::Status Transfer(ServerId to) { return raft_.Transfer(to); }
  absl::Status Campaign() { return raft_.Campaign(); }

  bool is_leader() const { return raft_.role() == Role::kLeader; }
  // A leader that has committed an entry of its own term: it serves reads and changes.
  bool is_ready_leader() const { return raft_.tenure_begun(); }
  ServerId leader() const { return raft_.leader(); }
  Term term() const { return raft_.term(); }
  LogIndex applied_index() const { return applied_; }
  LogIndex commit_index() const { return raft_.commit_index(); }
  const Configuration& configuration() const { return raft_.configuration(); }
  bool configuration_committed() const { return raft_.configuration_committed(); }
  // At the leader: how far each other server is, and for how many ticks it was silent.
  std::vector<PeerStatus> Peers() const { return raft_.Peers(); }
  const Raft& raft() const { return raft_; }
  // A write is under way, or has ended and Turn was not called since.
  bool IsPersisting() const { return persisting_ != nullptr; }
  // A write has ended: Turn has something to do.
  bool HasPersisted() const { return storage_.HasOutcome(); }
  // Of the last persist; OK again when one succeeded. kDeadlineExceeded: one is under way for so
  // long that this server neither leads nor campaigns.
  absl::Status persist_status() const;
  std::uint64_t bad_messages() const { return bad_messages_; }
  std::uint64_t persist_calls() const { return persist_calls_; }

 private:
  struct Proposal {
    Term term;
    ProposeDone done;
  };
  struct WaitingRead {
    LogIndex index;
    ReadDone done;
  };

  Replica(const ReplicaOptions& options, Storage& storage, StateMachine& state_machine,
          ReplicaListener& listener, PersistObserver* observer, InitialState initial);

  bool Work();
  void BeginPersist(PersistRequest request);
  bool EndPersist();
  void Observe(const PersistRequest& request);
  void Restore(const Snapshot& snapshot);
  void Apply(const Entry& entry);
  void Finish(LogIndex index, Term term, absl::StatusOr<std::string> result);
  void AnswerReads(const Ready& ready);
  void AnnounceLeadership();
  void AnnounceConfiguration();
  void MaybeSnapshot();
  void Refuse(ChangeDone done, absl::Status status);

  const ReplicaOptions options_;
  Storage& storage_;
  StateMachine& state_machine_;
  ReplicaListener& listener_;
  PersistObserver* const observer_;
  Raft raft_;

  LogIndex applied_ = 0;
  LogIndex durable_last_;  // of the storage, for the observer
  LogIndex snapshot_index_;
  std::size_t bytes_since_snapshot_ = 0;
  std::map<LogIndex, Proposal> proposals_;
  std::uint64_t next_read_ = 0;
  std::map<std::uint64_t, ReadDone> reads_;      // asked for
  std::vector<WaitingRead> waiting_reads_;       // answered, not applied yet
  std::vector<absl::AnyInvocable<void()>> due_;  // callbacks of this turn
  Role announced_role_ = Role::kFollower;
  ServerId announced_leader_;
  Term announced_term_ = 0;
  LogIndex announced_configuration_ = 0;
  bool configuration_announced_ = false;
  std::shared_ptr<const PersistRequest> persisting_;  // under way
  absl::Status persist_status_;
  std::uint64_t bad_messages_ = 0;
  std::uint64_t persist_calls_ = 0;
  bool in_turn_ = false;
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_REPLICA_H_
