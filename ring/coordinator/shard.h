// ring/coordinator/shard.h — the coordinator of one shard: orders and serves its keys.
//
// What:      ShardCoordinator holds the shard's state and runs the four operations, one file each:
//            put.cc, get.cc, remove.cc, move.cc; large values go through large_write.cc; commit.cc
//            acts on commits, collect.cc frees old versions, deferred.cc keeps what must wait,
//            answer.cc checks and answers, write.cc is the step of every write. expire.cc forgets
//            clients, release.cc gives memory back, drain.cc empties a memgest, unknown.cc asks for
//            one that is not known. epoch.cc, shard_builder.cc, rebuild.cc, absent.cc,
//            degraded_read.cc and retire.cc: new epochs, a role that came here, new parities,
//            values that are not here, or read as if they were not, the end.
// Shape:     one per (group, shard) that this node coordinates, through epochs of the group.
// Ownership: owns lines, key table, completion records, memgests and the shard's log; borrows
//            device, sink, arena.
// Threads:   one, the node's. Every operation is one uninterrupted step (V5).
// Errors:    every refusal is an Outcome in the reply, with no change of state.
// Cost:      no allocation, lock or system call per small put or get that need not wait.
// Source:    Ring sections 5 and 6; rules V1 to V10, G1 to G11, X1 to X7.
#ifndef RING_COORDINATOR_SHARD_H_
#define RING_COORDINATOR_SHARD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memgest/completion_table.h"
#include "memgest/delta_arena.h"
#include "memgest/line_table.h"
#include "memgest/memgest.h"
#include "memgest/shard_log.h"
#include "memgest/snapshot_cursor.h"
#include "memgest/value_piece.h"
#include "ring/base/id.h"
#include "ring/base/mutant.h"
#include "ring/base/pace.h"
#include "ring/coordinator/key_hash.h"
#include "ring/coordinator/key_table.h"
#include "ring/coordinator/landing_places.h"
#include "ring/coordinator/request.h"
#include "ring/coordinator/shard_options.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::coordinator {

// Whom a Normal names for one memgest.
struct NamedSet {
  MemgestId memgest;
  RoleMask roles = 0;
  RoleMask complete = kAllRoles;  // of them, have all values or blocks
  // Parities among them that are still rebuilt (S6).
  std::vector<memgest::ParityRebuild::From> incomplete = {};
};

// What a memgest still holds in a shard; all zero: it may be DELETED (G10).
struct DrainCounts {
  std::uint64_t keys = 0;
  std::uint64_t versions = 0;  // tombstones and what is being collected, too
  std::uint64_t records = 0;   // completion records of its log
  std::uint64_t pending = 0;   // writes, collections and moved records under way
};

class LargeWrite;
class ShardBuilder;
class ValueFetcher;
struct FoldedShard;

class ShardCoordinator {
 public:
  ShardCoordinator(const ShardOptions& options, rdma::Device* device, memgest::DeltaArena* arena,
                   ReplySink* sink);
  ~ShardCoordinator();

  // The memgest becomes usable here; its members' writers are log()'s, and those of these roles
  // count.
  void AddMemgest(const protocol::MemgestDescriptor& descriptor, RoleMask active = kAllRoles);
  void SetMemgestState(MemgestId id, protocol::MemgestState state);
  void SetWeakPast(const protocol::WeakPast& past) { weak_past_ = past; }
  // drain.cc (G10). A step of emptying a DRAINING memgest, then what is left: completion records go
  // to records_to's log, or a stronger one if that is weaker than theirs (X7); with a dropper, an
  // internal client of this node, tombstones are written and covered versions collected.
  DrainCounts Drain(MemgestId id, MemgestId records_to, const memgest::ClientId* dropper);
  // DELETED: frees its heap. REQUIRES: Drain counted nothing.
  void RemoveMemgest(MemgestId id);
  // Whether a large write to these cells is under way: it has entries to append yet (S2).
  bool HasLargeWrite(MemgestId id, std::uint32_t first_cell, std::uint32_t cell_count) const;
  // ... and its client makes it wait: it is given up.
  void EndSlowWrites(MemgestId id, std::uint32_t first_cell, std::uint32_t cell_count,
                     std::uint64_t now_ns);
  memgest::Memgest* FindMemgest(MemgestId id) const {
    return id.value() < memgests_.size() ? memgests_[id.value()].get() : nullptr;
  }
  const std::vector<std::unique_ptr<memgest::Memgest>>& memgests() const { return memgests_; }

  // epoch.cc: the epoch change (steps 5 and 6) at a coordinator that lives on. Between
  // BeginEpoch and the first ApplyNormal it answers reads of what is committed, if it served
  // before; all else waits. Members come back by log().AddWriter. REQUIRES: as
  // ShardLog::BeginEpoch.
  void BeginEpoch(Epoch epoch);
  // V1: half of the epoch's versions are assigned: it is time for the next one.
  static constexpr std::uint64_t kVersionsAsk = Version::kCounterMax / 2 + 1;
  bool versions_run_out() const { return tenure_counter_ >= kVersionsAsk; }
  // As if so many versions of the epoch had been assigned. REQUIRES: no more of them were.
  void SkipVersions(std::uint64_t up_to);
  // A Normal of this epoch is known to be committed: it says who counts, and commits what was
  // appended before the epoch. A memgest that it does not name has nobody who counts. REQUIRES: who
  // is named is log().CaughtUp, and holds what was proposed.
  void ApplyNormal(absl::Span<const NamedSet> sets);
  // E8: the memgest's log was adopted although more was lost than it survives. Gives whether that
  // is news.
  bool NoteLost(MemgestId id) { return records_lost_.insert(id).second; }
  bool LostRecordsOf(MemgestId id) const { return records_lost_.contains(id); }
  // L7: a further Normal of the epoch. From here on both sets are needed; when log().CaughtUp says
  // so of everyone it names, it is proposed, until ApplyNormal or another epoch.
  void Propose(absl::Span<const NamedSet> sets);
  // L7: a fresh ring for a role that has nothing of the shard, open behind a snapshot of all its
  // logs, in one step. It counts for nobody before Propose. Errors, without effect: as
  // ShardLog::AddWriter. REQUIRES: a Normal of this epoch was applied; snapshot_id
  // and piece_size as memgest::SnapshotWriter.
  struct Learner {
    memgest::LogWriter* writer = nullptr;
    std::shared_ptr<memgest::SnapshotCursor> snapshot;
    // Of each memgest that it is a parity of: from which extent on it counts (S6); 0: it has all.
    std::vector<std::pair<MemgestId, std::uint64_t>> parities;
  };
  absl::StatusOr<Learner> AddLearner(Role role, std::unique_ptr<memgest::LogWriter> writer,
                                     std::uint64_t snapshot_id,
                                     std::size_t piece_size = memgest::kPieceSizeMax);
  // What is committed now of memgests that have members, until the epoch ends.
  std::shared_ptr<memgest::SnapshotCursor> TakeSnapshot(
      std::uint64_t id, absl::Span<memgest::Memgest* const> logs,
      std::size_t piece_size = memgest::kPieceSizeMax);
  // Its ring ends: it was dropped before the epoch's first Normal, or fails to join.
  void RemoveMember(Role role);
  // PARTs that stand before a snapshot have a FINAL behind it while one of the large writes is
  // under way that had begun by then: up to the last of those.
  std::uint64_t last_large_write() const { return large_write_tokens_; }
  bool HasLargeWriteUpTo(std::uint64_t last) const;

  // rebuild.cc: new parities that have been sent all that the shard holds, and acknowledged it, as
  // long as no Normal says so.
  struct Rebuilt {
    MemgestId memgest;
    Role role;
  };
  std::vector<Rebuilt> rebuilt() const;

  // retire.cc: this node coordinates the shard no more. What waits is captured an answer: a write
  // is UNKNOWN, applied or not (X5), a get UNAVAILABLE. Nothing is executed or answered from here
  // on; memory is given back, but for what sends and READs under way refer to (V6): it follows when
  // they are done, and then gone() says so. REQUIRES: the queue pairs towards members are reset.
  void Retire();
  bool retired() const { return is_retired_; }
  bool gone() const { return is_retired_ && pin_count_ == 0 && large_writes_.empty(); }

  // False: no room in a log, a staging area or a table of waiters just now; nothing was done, come
  // again after the next completions. True: answered, or it will be.
  bool Execute(const Request& request);

  // Hints for requests of a batch, in stages (hot path): the bucket; then the line and the value or
  // slot.
  void PrefetchBucket(const Request& request) const { keys_.PrefetchBucket(request.hash); }
  void PrefetchLines(const Request& request);

  // Posts staged log entries. Then, once completions were polled: Commit answers, collects,
  // releases what waited.
  absl::Status Flush() { return log_.Flush(); }
  void Commit();
  // Once a turn after the replies: large writes move on by one part, collections get their own
  // entry after 1 ms idle or when space is low, members hear of the commit position.
  void EndTurn(std::uint64_t now_ns, bool busy = false);
  // The records of a client from outside; null: there are as many as may be, and none of their
  // clients was silent for long (expire.cc).
  memgest::CompletionTable::Client* AdmitClient(const memgest::ClientId& id);
  // Whether EndTurn is due though nothing happens here: clients grow silent.
  bool TimePassed(std::uint64_t now_ns) const { return completions_.period_over(now_ns); }
  // Something to do without waiting for anybody; something under way at all.
  bool HasWork() const;
  bool Busy() const;
  // Runs the request now, or as soon as there is room. `stalled` requests keep a node from taking
  // more.
  void Submit(const Request& request);
  std::size_t stalled() const { return ready_.size(); }
  // A READ that ReplySink was asked for is done.
  void OnRead(std::uint64_t token, bool ok);

  // absent.cc: a value that ValueFetcher was asked for stands in its slot, or (not ok) is lost.
  // What waited for it runs again with the next Commit. A line that holds another version by now is
  // left alone (S5).
  void OnValue(std::uint32_t line, Version version, bool ok);
  // A block of it is Present again: what is free in it goes back.
  void OnPresent(MemgestId id) { release_due_ |= FindMemgest(id)->allocator().release_due(); }
  // The value does not come for now: what waited for it runs again, and is refused unless
  // ValueFetcher::CanBring.
  void OnDelay(std::uint32_t line);
  // Others may have values that were lost: those of these lines are wanted again.
  void RetryLost(absl::FunctionRef<bool(std::uint32_t line)> may_come);
  // The role is lost, and nobody brings values any more: what waits for them is given up.
  void AbandonValues();
  // degraded_read.cc: of BlockDecoder, all bytes of the block; none: it is zero. Of a token that is
  // not known, nobody's.
  void OnDecoded(std::uint64_t token, const absl::StatusOr<absl::string_view>& block);
  // Of a committed version of a replicated memgest, for a member; as MemberShard::ReadValue.
  absl::StatusOr<memgest::ValuePiece> ReadValue(std::uint32_t line, Version version,
                                                std::uint64_t first, std::size_t size) const;
  // S12: the bytes that are where the line's value lies are those.
  bool ValueFits(std::uint32_t line) const { return ValueCrc(line) == lines_.line(line).value_crc; }

  // V6: a pinned slot is not reused.
  void Pin(std::uint32_t line) {
    ++lines_.line(line).pins;
    ++pin_count_;
  }
  void Unpin(std::uint32_t line);

  memgest::LineTable& lines() { return lines_; }
  memgest::CompletionTable& completions() { return completions_; }
  memgest::ShardLog& log() { return log_; }
  KeyTable& keys() { return keys_; }
  const ShardOptions& options() const { return options_; }
  const ShardCounters& counters() const { return counters_; }

 private:
  friend class LargeWrite;
  friend class ShardBuilder;

  // An operation that was appended: who is answered at its commit.
  struct Waiting {
    ReplyTo reply;
    memgest::CompletionTable::Client* client = nullptr;
    std::uint64_t seq = 0;
    std::uint64_t first_incomplete = 0;
    std::uint32_t request_crc = 0;
    std::uint32_t waiter = 0;                      // first of a list of deferred requests
    std::uint64_t ShardCounters::*kind = nullptr;  // counted when it is answered
    std::uint32_t next_free = 0;
  };
  // A request copied because it must wait.
  struct Deferred {
    Request request;
    std::string key;
    std::string value;
    std::uint32_t next = 0;
  };
  // What an appending operation knows when it has reserved everything.
  struct Write {
    memgest::Memgest* memgest = nullptr;
    memgest::EntryType type = memgest::EntryType::kPut;
    memgest::Slot slot;
    absl::Span<const memgest::Range> ranges;
    std::uint32_t value_length = 0;
    std::uint32_t value_crc = 0;
    std::uint64_t expiry_ns = 0;
    bool explicit_move = false;
    // SRS: the new bytes, registered; replicated: already in the slot.
    const std::byte* coded_value = nullptr;
    memgest::DeltaArena::Piece piece;  // SRS: room for the deltas; may also hold the value
    std::size_t piece_value_size = 0;  // bytes of the piece before the deltas
  };

  bool Put(const Request& request);  // put.cc
  bool PutSmall(const Request& request, memgest::Memgest& memgest, std::uint32_t* head);
  void PrefetchSlot(memgest::Memgest& memgest, std::uint32_t length);
  bool Get(const Request& request);     // get.cc
  bool Remove(const Request& request);  // remove.cc
  bool Move(const Request& request);    // move.cc
  bool MoveSmall(const Request& request, memgest::Memgest& target, std::uint32_t* head);
  memgest::Memgest* TombstoneHome(std::uint32_t head);

  // write.cc: the uninterrupted step (V5) and its parts.
  bool ReserveWrite(const memgest::Memgest& memgest, std::size_t key_length, std::uint32_t payload,
                    std::size_t range_count, bool tombstone) const;
  void CommitToWrite(const Request& request, const Write& write, std::uint32_t* head);
  void AppendPayload(memgest::Memgest& memgest, const memgest::EntryFields& fields,
                     const std::byte* coded_value, const memgest::DeltaArena::Piece& piece,
                     std::size_t piece_value_size, std::uint32_t operation);
  void StoreLine(const Request& request, const Write& write, Version version, std::uint32_t* head);

  // answer.cc
  // memgest: the one that is why, if it is one.
  void Refuse(const Request& request, protocol::Outcome outcome, Version version = Version(),
              MemgestId memgest = MemgestId());
  // Refuses for what the key's state is: a later copy of the request gets the same answer (X5), as
  // long as this coordinator lives; Remember alone for an answer that changed nothing.
  void Decide(const Request& request, protocol::Outcome outcome, Version version = Version());
  void Remember(const Request& request, protocol::Outcome outcome, Version version);
  void AnswerLine(const Request& request, std::uint32_t line, bool with_value);
  // Exactly once: kHandled: it was answered, or attached to the one in flight.
  enum class Once : std::uint8_t { kNew = 0, kHandled = 1 };
  Once CheckOnce(const Request& request);
  bool MayHaveRunBefore(const Request& request) const;
  // V9: whether if_version holds, does not (by this version), or depends on this uncommitted one.
  enum class Condition : std::uint8_t { kHolds = 0, kMismatch = 1, kWait = 2 };
  std::pair<Condition, Version> CheckCondition(const Request& request,
                                               const std::uint32_t* head) const;
  // False: the request was answered, or waits.
  bool ConditionHolds(const Request& request, const std::uint32_t* head);
  // What if_version is compared with: none for a missing key and for a tombstone.
  Version VersionThere(const std::uint32_t* head) const;

  // shard_builder.cc: with what a member folded, which the builder then looks through.
  ShardCoordinator(const ShardOptions& options, rdma::Device* device, memgest::DeltaArena* arena,
                   ReplySink* sink, ValueFetcher* fetcher, FoldedShard* folded);

  // retire.cc
  void AnswerAllWaiting();
  void GiveMemoryBack();

  // absent.cc
  bool absent(std::uint32_t line) const {
    return (lines_.line(line).flags & memgest::kAbsent) != 0;
  }
  bool AwaitValue(const Request& request, std::uint32_t line);
  void ForgetAbsent(std::uint32_t line);
  template <class Visit>
  void ForEachRun(std::uint32_t line, Visit visit) const;
  std::uint32_t ValueCrc(std::uint32_t line) const;

  // degraded_read.cc
  struct DegradedRead;
  bool DecodesInstead(const Request& request, std::uint32_t line);
  std::uint32_t BlockCells(std::uint32_t line);
  bool ReadDegraded(const Request& request, std::uint32_t line);
  void Decode(std::uint64_t token);
  bool DecodeAgain(std::uint64_t token);
  absl::string_view ValueIn(absl::string_view block, std::uint32_t line);
  void AnswerDecoded(const DegradedRead& read, absl::string_view value);
  void EndDegradedReads();

  // deferred.cc
  bool Defer(const Request& request, std::uint32_t line);    // until its version is committed
  bool DeferOn(const Request& request, std::uint32_t head);  // ... and goes by none below it (V4)
  std::uint32_t* WaitersOf(const Request& request);
  void Attach(const Request& request);  // to the same request under way
  bool TakePlace(const Request& request, std::uint32_t handle);
  bool IsCopy(const Request& request, std::uint32_t handle) const;
  bool RefuseCopy(const Request& request, std::size_t copies);  // one too many: it is answered
  void DeferUntilNextTurn(const Request& request);
  std::uint32_t CopyDeferred(const Request& request);
  void ReleaseWaiters(std::uint32_t* list);
  void RunReady();

  // unknown.cc (G11)
  void RefuseUnknown(const Request& request);
  void RefuseWrite(const Request& request, const memgest::Memgest& memgest);
  // Whether the catalogue is known here as it was when the request came, or later. False: the
  // request waits for it, or was refused as nobody could say.
  bool KnowsCatalogue(const Request& request);
  void ReleaseUndecided();

  // commit.cc
  void CommitNews();
  void OnCommit(memgest::Pending& pending);
  void AnswerOperation(const memgest::Pending& pending);
  std::uint32_t NewOperation(const Request& request, memgest::EntryType type);
  std::uint32_t CommittedAbove(std::uint32_t line);
  void CountVisible(std::uint32_t line);
  void CollectBelow(std::uint32_t line);  // G1

  // collect.cc
  void QueueCollection(std::uint32_t line, std::uint32_t upper);
  void OnCollected(const memgest::Collection& collection);
  void Unlink(std::uint32_t line, std::uint32_t upper);
  void FreeLine(std::uint32_t line);
  bool CollectNow(memgest::Memgest& memgest);
  // No room in a log just now: come again, unless a member is gone and room will never come.
  bool AwaitRoom(const Request& request, const memgest::Memgest& memgest);
  bool AwaitSpace(const Request& request, memgest::Memgest& memgest);
  void DrainCollections(std::uint64_t now_ns);

  // expire.cc (X4)
  enum class Expired : std::uint8_t {
    kNone,    // nobody was silent for long, or can be forgotten now
    kNoRoom,  // for its entry just now
    kLater,   // one was not done yet
    kOne,     // is forgotten
  };
  void ExpireClients(std::uint64_t now_ns);
  Expired ExpireLongestSilent();
  bool IsInUse(const memgest::CompletionTable::Client* client) const;
  Expired AppendExpiry(const memgest::ClientId& id, std::uint64_t next_seq);

  // release.cc
  void ReleaseMemory(std::uint64_t now_ns);
  bool ReleaseRun(memgest::Memgest& memgest);

  // rebuild.cc
  void RebuildParities(std::uint64_t now_ns);

  // drain.cc
  memgest::Memgest* RecordHome(const memgest::Memgest* from, MemgestId preferred) const;
  std::uint64_t MoveRecords(MemgestId from, memgest::Memgest* to);
  void DropContents(memgest::Memgest& memgest, const memgest::ClientId& dropper);
  bool DropLine(std::uint32_t line, const memgest::ClientId& dropper);
  void FreeRetired();

  // What it knew to be committed before the epoch stays so, and nobody else has served since; what
  // was adopted from others may be on one node only, and is committed with Normal (E2).
  bool MayRead(protocol::Operation operation) const {
    return IsRead(operation) && (served_ || Mutant("E2-reads"));
  }
  bool committed(std::uint32_t line) const {
    return (lines_.line(line).flags & memgest::kCommitted) != 0;
  }
  bool tombstone(std::uint32_t line) const {
    return (lines_.line(line).flags & memgest::kTombstone) != 0;
  }
  std::uint32_t HighestCommitted(std::uint32_t head) const;
  // The same for a request that waited, if it is none below what that one saw.
  std::optional<std::uint32_t> CommittedSince(const Request& request, std::uint32_t head) const;
  memgest::Memgest& MemgestOf(std::uint32_t line) { return *memgests_[lines_.line(line).memgest]; }

  static constexpr memgest::EntryPayload kNoPayload = {};
  static constexpr std::size_t kStalledMax = 2048;   // requests waiting for room
  static constexpr std::size_t kDeferredMax = 8192;  // requests waiting for anything: copies
  static constexpr std::size_t kDegradedReadsMax = 256;
  static constexpr std::size_t kPrefetchLines = 16;  // of a value: beyond, the hardware streams

  ShardOptions options_;
  rdma::Device* device_;
  memgest::DeltaArena* arena_;
  ReplySink* sink_;
  ValueFetcher* fetcher_ = nullptr;  // of a shard that was taken over
  memgest::LineTable lines_;
  KeyTable keys_;
  memgest::CompletionTable completions_;
  memgest::ShardLog log_;
  std::vector<std::unique_ptr<memgest::Memgest>> memgests_;  // by id, which is never reused (V2)
  std::uint64_t tenure_counter_ = 0;                         // of versions (V1)
  // Whose log was adopted short in this tenure (E8), and the records there with it.
  absl::flat_hash_set<MemgestId> records_lost_;
  protocol::WeakPast weak_past_;

  std::vector<Waiting> operations_;  // 1-based handles
  std::uint32_t free_operation_ = 0;
  std::vector<Deferred> deferred_;  // 1-based handles
  std::uint32_t free_deferred_ = 0;
  std::vector<std::uint32_t> ready_;  // deferred requests to run again
  std::vector<std::uint32_t> running_;
  std::vector<std::uint32_t> failed_;     // of them, in this turn
  std::vector<std::uint32_t> undecided_;  // deferred until a read of the catalogue is over (G11)
  std::vector<std::uint32_t> lingering_;  // collected lines that are still pinned (V6)
  bool served_ = false;                   // before the present epoch
  bool is_retired_ = false;
  std::uint64_t pin_count_ = 0;  // of all lines
  memgest::SnapshotCursors snapshots_;
  struct Absent {
    std::uint32_t waiter = 0;  // first of a list of deferred requests
    bool wanted = false;       // asked for, and not come yet: the line is pinned
    bool lost = false;
  };
  absl::flat_hash_map<std::uint32_t, Absent> absent_;  // by line, of those somebody asked for
  struct DegradedRead {
    ReplyTo reply;
    std::uint32_t line = 0;      // pinned
    std::uint32_t attempts = 0;  // beyond the first
  };
  std::map<std::uint64_t, DegradedRead> degraded_reads_;  // by token: they end in that order
  std::uint64_t degraded_tokens_ = 0;
  LandingPlaces landing_places_;
  std::vector<std::unique_ptr<LargeWrite>> large_writes_;
  std::size_t large_places_taken_ = 0;
  std::uint64_t large_write_tokens_ = 0;
  std::uint64_t collect_since_ns_ = 0;
  bool expiring_ = false;     // more clients are to be forgotten
  bool release_due_ = false;  // memory of some memgest
  bool releasing_ = false;    // a walk is under way
  bool rebuilding_ = false;   // parities of some memgest (S6)
  std::uint64_t release_period_end_ns_ = 0;
  std::uint32_t deferred_count_ = 0;
  std::uint64_t collection_count_ = 0;  // queued or in flight
  bool collections_queued_ = false;     // since the last CommitNews
  struct Retired {
    std::uint64_t order = 0;
    std::unique_ptr<memgest::Memgest> memgest;
  };
  std::vector<Retired> retired_;   // DELETED, while the log may refer to it
  std::uint64_t drain_order_ = 0;  // of the last record moved
  std::uint64_t drop_order_ = 0;   // of the last drop
  std::uint64_t drop_seq_ = 0;
  std::uint64_t drop_first_seq_ = 1;
  std::uint32_t drop_granule_ = 0;        // next to look at
  memgest::Memgest* last_put_ = nullptr;  // of this turn
  std::uint32_t last_put_length_ = 0;
  ShardCounters counters_;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_SHARD_H_
