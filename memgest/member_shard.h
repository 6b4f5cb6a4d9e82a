// memgest/member_shard.h — a redundant node's state of one (group, shard), and the folding of its
// ring.
//
// What:      Metadata lines, completion records and replica heaps of the shard's memgests that have
//            this node as a member; parity stores are the group's and shared by its shards. Fold
//            takes committed entries from the ring. An entry's own effect comes first, then its
//            collect list, then its completion record: an entry never uses a slot that it collects
//            itself (G2). At an epoch change (member_epoch.cc): Seal ends folding, Adopt lets it go
//            on in the next epoch, Reset drops everything.
// Shape:     one per (group, shard) and node that is not the shard's coordinator. Indexes of a log
//            are dense; entries of a new ring that were folded from an older one are skipped (epoch
//            change, step 5: XOR is not idempotent).
//            epoch L:  Attach, Fold, Fold, ...
//            change:   Seal(e', L), Attach(ring of e'); again with e'' if e' is abandoned
//            Normal:   Adopt(e'), Fold (first what the ring of L still has), Fold, ...
//                      or, not a member of e': Reset(e'), then as a joiner
// Ownership: owns lines, completion table, replica heaps; borrows device and parity stores.
// Threads:   one, the node's.
// Errors:    Fold: kDataLoss for a ring that is corrupt below its commit position, or an entry that
//            contradicts the folded state: nothing of that entry was folded, the member counts as
//            failed and every later Fold says the same. kResourceExhausted (no memory for the
//            entry) and kFailedPrecondition (a memgest that is not known here) leave the ring where
//            it is: Fold again later.
// Cost:      one copy (replica) or one read-modify-write (parity) of the payload, one metadata
//            line, one more for each collected version, no hash table but when memgest or client
//            change. 1 KiB, 400 K cold slots, decoding and both CRCs included, one collection an
//            entry: replica about 195 ns, parity about 250 ns (tests/memgest/fold_bench.cc).
// Source:    Ring section 5.2; rules E1 to E9, G2, L5, S1, S6, S10, X2; the
//            steps of an epoch change.
#ifndef RING_MEMGEST_MEMBER_SHARD_H_
#define RING_MEMGEST_MEMBER_SHARD_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memgest/completion_table.h"
#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "memgest/log_reader.h"
#include "memgest/parity_store.h"
#include "memgest/replica_store.h"
#include "memgest/sealed_ring.h"
#include "memgest/snapshot.h"
#include "memgest/snapshot_cursor.h"
#include "memgest/value_piece.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::memgest {

class MemberShard {
 public:
  MemberShard(rdma::Device* device, GroupId group, ShardId shard, std::uint32_t line_count_max);

  // The memgest becomes foldable here, as a replica. Known already: no-op.
  void AddReplica(const protocol::MemgestDescriptor& descriptor);
  // ... as a parity. store is the group's, and outlives this; it takes the place of one before.
  void AddParity(const protocol::MemgestDescriptor& descriptor, ParityStore* store);
  // ... with its metadata alone: coded, at the node that takes the shard over. Its values are
  // decoded later, block by block.
  void AddMetadata(const protocol::MemgestDescriptor& descriptor);
  // Drops its lines and heap. What its log still says is skipped, but for completion records.
  void RemoveMemgest(MemgestId id);

  // The ring of the present epoch: the one that was promised last, if any was.
  void Attach(std::unique_ptr<LogReader> reader);
  LogReader* reader() { return reader_.get(); }

  // Step 2 of the epoch change: promises `next`, folds nothing more, and tells the logs of epoch
  // last_normal (L; 0: there never was a Normal), in order of memgests. The ring of L is kept;
  // rings of epochs between are dropped unread, and asking again gives the same answer. REQUIRES:
  // the present ring is revoked and its queue pair gone (L5). Errors:
  //   kFailedPrecondition: `next` is older than what was promised, Adopt(last_normal) comes first,
  //     or a memgest that what L adopted has entries of is not known here yet.
  //   kAborted: this node has no ring of epoch L: it is no member of it; Reset is next (step 7).
  //   kResourceExhausted: no memory to fold what L had adopted; ask again.
  //   kDataLoss: as Fold.
  absl::StatusOr<std::vector<SealedLog>> Seal(Epoch next, Epoch last_normal);
  // Normal(epoch) names this node: what the sealed ring holds is committed and is folded before
  // anything of the new ring. A no-op when it was done. Errors, without effect:
  // kFailedPrecondition, epoch is not the one that was promised.
  absl::Status Adopt(Epoch epoch);
  // S7: what another member folded of the log, in this epoch's ring, is committed, and is folded
  // here, too, though its coordinator is gone and did not say so here. False: it is not here, or
  // the ring is another one.
  bool CommitThrough(Epoch ring, MemgestId memgest, std::uint64_t index);
  // Step 7: drops all state of the shard and gives its memory back; memgests must be added again.
  // What this shard's deltas left in parity stores cannot be taken out: their owner drops them.
  // Nothing is folded from a ring before Adopt(promised). REQUIRES: promised is not older than what
  // was.
  void Reset(Epoch promised);
  // 0: nothing was promised yet.
  Epoch promised() const { return promised_; }
  // The ring of L; null when there is none, or all of it was folded: its memory is free then.
  const SealedRing* sealed() const { return sealed_.get(); }
  // Whether Fold may find something.
  bool HasWork() const {
    return !held_ && !installing_ &&
           (sealed_ != nullptr || (reader_ != nullptr && reader_->HasCommitted()));
  }

  // What is folded of these logs, as it is now; to be taken piece by piece, until more is folded.
  std::shared_ptr<SnapshotCursor> TakeSnapshot(std::uint64_t id,
                                               absl::Span<const MemgestId> memgests,
                                               std::size_t piece_size = kPieceSizeMax);
  // A joiner takes the next piece of a snapshot; logs that stand in it go on behind it. Values are
  // not here then: lines of replicated memgests are kAbsent. Nothing is folded from a ring while a
  // snapshot is half taken; one that was taken before is ignored. Errors: kInvalidArgument, the
  // piece is wrong, contradicts what is here, or is not the next one: Reset; kFailedPrecondition (a
  // memgest that is not known here) and kResourceExhausted: the same piece again, later.
  absl::Status Install(absl::string_view piece);
  bool installing() const { return installing_; }  // one is half taken
  // Folds an entry of a shipped tail (memgest/log_tail.h): what is committed or will be with the
  // next Normal. One that was folded is skipped. Errors: as Fold.
  absl::Status FoldShipped(const EntryView& entry);
  // The value of a line that is kAbsent. OK without effect: it is here. Errors: kNotFound, the line
  // does not hold that version any more (S5); kInvalidArgument, the bytes are not the version's;
  // kResourceExhausted.
  absl::Status InstallValue(std::uint32_t line, Version version, absl::Span<const std::byte> bytes);
  // Part of the value of a version that is here. Errors: kNotFound, another version is, or its
  // value is not.
  absl::StatusOr<ValuePiece> ReadValue(std::uint32_t line, Version version, std::uint64_t first,
                                       std::size_t size) const;
  // Lines that wait for their value; 0 everywhere: data-complete, as far as copies go.
  std::uint64_t absent_count(MemgestId id) const;
  std::uint64_t absent_count() const { return absent_count_; }  // of all
  std::uint64_t absent_total(MemgestId id) const;               // that ever were
  // Entries whose payload was damaged where they were folded without it (F10).
  std::uint64_t damaged_count() const { return damaged_count_; }
  // Calls visit(MemgestId) for each memgest that is foldable here.
  template <class Visit>
  void ForEachMemgest(Visit visit) const {
    for (const auto& [id, state] : states_) {
      if (!state->removed) visit(id);
    }
  }

  // Bytes of the ring that wait to be folded.
  std::uint64_t backlog() const {
    if (sealed_ != nullptr) return sealed_->reader().commit_position();
    return reader_ == nullptr ? 0 : reader_->commit_position() - reader_->folded_position();
  }

  // Folds up to `budget` committed entries; gives how many. Prefetches two entries ahead. After it,
  // all entries below the reader's folded position are folded: the caller shares the credit, and
  // only after a Fold that succeeded.
  absl::StatusOr<int> Fold(int budget);

  // Last index folded of a memgest's log here (0: none).
  std::uint64_t applied(MemgestId id) const;
  // Behind the highest cell of the memgest's heap that an entry ever wrote (S4).
  std::uint64_t end_cells(MemgestId id) const;
  LineTable& lines() { return lines_; }
  CompletionTable& completions() { return completions_; }
  // Replica's copy of the values; null for a memgest that is not replicated here. Bytes are a
  // version's only while its line holds that version (E3).
  const HeapSpace* replica_heap(MemgestId id) const;
  // ... for the coordinator that this member becomes, as lines() and completions() are: nothing is
  // folded here any more. REQUIRES: Knows(id), and it is replicated here.
  HeapSpace TakeHeap(MemgestId id);
  bool Knows(MemgestId id) const { return states_.contains(id); }

 private:
  // Entries that are prefetched behind the one being folded.
  static constexpr std::size_t kAhead = 2;

  struct MemgestState {
    protocol::MemgestDescriptor descriptor;
    std::uint64_t applied = 0;
    std::uint64_t ring_index = 0;  // of the last entry in the present ring; 0: none
    std::uint64_t end_cells = 0;
    std::uint64_t absent_count = 0;
    std::uint64_t absent_total = 0;
    std::uint64_t install_number = 0;  // of the snapshot that it came by; 0: it began here
    bool removed = false;
    bool part_damaged = false;              // a PART of a value whose FINAL may be still to come
    std::unique_ptr<ReplicaStore> replica;  // one of the two, unless removed or metadata alone
    ParityStore* parity = nullptr;
  };
  struct Taken {
    EntryView view;
    MemgestState* state = nullptr;
    bool damaged = false;  // its payload is, and only that
  };

  MemgestState& AddState(const protocol::MemgestDescriptor& descriptor);
  MemgestState* FindState(MemgestId id);
  absl::StatusOr<int> FoldFrom(LogReader& reader, int budget);
  absl::StatusOr<bool> Take(LogReader& reader, Taken* taken);
  absl::Status LookAtPayload(Taken& taken) const;
  // The ring that was sealed and adopted; gone when all of it is folded.
  absl::StatusOr<int> FoldSealed(int budget);
  void StartRing();
  absl::Status SealPresent(Epoch last_normal);
  absl::Status NotOfEpoch(Epoch last_normal) const;
  bool NeedsPayload(const EntryHeader& header, const MemgestState& state) const;
  absl::Status Prepare(const EntryView& entry, MemgestState& state);
  void Prefetch(const EntryView& entry, const MemgestState& state) const;

  absl::Status FoldEntry(Taken& taken);
  absl::Status CheckIndex(const EntryHeader& header, const MemgestState& state) const;
  absl::Status CheckCollects(const EntryView& entry) const;
  absl::Status EnsureFree(const EntryHeader& header);
  // A replica sums the payload while it copies it, so that here is where damage shows: in a slot
  // that holds no version, as the line is written afterwards.
  absl::Status WriteBytes(Taken& taken);
  void FreeReleased();
  bool LacksValue(const Taken& taken) const;
  absl::Status TakeBase(const EntryView& entry, MemgestState& state);
  static bool SumsWhileWriting(const EntryHeader& header, const MemgestState& state) {
    return state.replica != nullptr && header.index > state.applied &&
           header.type != EntryType::kRelease;
  }
  void WriteLine(const EntryView& entry);
  void CollectLine(std::uint32_t line, MemgestState& state);
  // The runs of cells that a line's value lies in.
  template <class Visit>
  absl::Status ForEachRun(std::uint32_t line, Visit visit) const;
  bool HasValue(std::uint32_t line, const MemgestState& state) const;
  void MarkAbsent(std::uint32_t line, MemgestState& state);
  absl::Status InstallItem(const SnapshotItem& item);
  absl::Status InstallLines(const SnapshotItem& item);
  absl::Status InstallLine(const SnapshotItem& item);
  void CoverWhatIsYounger();
  void FoldRecord(const EntryHeader& header);

  rdma::Device* device_;
  GroupId group_;
  ShardId shard_;
  LineTable lines_;
  CompletionTable completions_;
  std::unique_ptr<LogReader> reader_;
  std::unique_ptr<SealedRing> sealed_;
  Epoch promised_;
  std::uint64_t absent_count_ = 0;  // of all memgests
  std::uint64_t damaged_count_ = 0;
  bool installing_ = false;                  // a snapshot is half taken
  std::uint64_t install_id_ = 0;             // of it, or of the one that was taken last
  std::uint64_t install_number_ = 0;         // snapshots begun here, as sources may choose one id
  std::vector<std::uint32_t> install_crcs_;  // of its pieces that were taken
  bool held_ = false;  // what was promised last is not Normal yet, as far as this node knows
  SnapshotCursors snapshots_;
  absl::flat_hash_map<MemgestId, std::unique_ptr<MemgestState>> states_;
  // Runs of entries of one memgest, and of one client, are common.
  MemgestState* last_state_ = nullptr;
  std::vector<MemgestState*> released_;  // had a RELEASE, whose chunks may be empty now
  ClientId last_client_id_;
  CompletionTable::Client* last_client_ = nullptr;
  bool fence_ = false;  // weakly ordered stores since the last fence
  absl::Status failure_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_MEMBER_SHARD_H_
