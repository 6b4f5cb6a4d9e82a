// memgest/member_shard.h — a redundant node's state of one (group, shard), and the folding of its
// ring.
//
// What:      Metadata lines, completion records and replica heaps of the shard's memgests that have
//            this node as a member; parity stores are the group's and shared by its shards. Fold
//            takes committed entries from the ring. An entry's own effect comes first, then its
//            collect list, then its completion record: an entry never uses a slot that it collects
//            itself (G2).
// Shape:     one per (group, shard) and node that is not the shard's coordinator. Indexes of a log
//            are dense; entries of a new ring that were folded from an older one are skipped (epoch
//            change, step 5: XOR is not idempotent).
// Ownership: owns lines, completion table, replica heaps; borrows device and parity stores.
// Threads:   one, the node's.
// Errors:    Fold: kDataLoss for a ring that is corrupt below its commit position, or an entry that
//            contradicts the folded state: nothing of that entry was folded, the member counts as
//            failed and every later Fold says the same. BASE counts as such: no parity that is
//            being rebuilt is attached yet. kResourceExhausted (no memory for the entry) and
//            kFailedPrecondition (a memgest that is not known here) leave the ring where it is:
//            Fold again later.
// Cost:      one copy (replica) or one read-modify-write (parity) of the payload, one metadata
//            line, one more for each collected version, no hash table but when memgest or client
//            change. 1 KiB, 400 K cold slots, decoding and both CRCs included, one collection an
//            entry: replica about 195 ns, parity about 250 ns (tests/memgest/fold_bench.cc).
// Source:    Ring section 5.2; protocol rules E5, E9, G2, S1, S10, X2.
#ifndef RING_MEMGEST_MEMBER_SHARD_H_
#define RING_MEMGEST_MEMBER_SHARD_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "memgest/completion_table.h"
#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "memgest/log_reader.h"
#include "memgest/parity_store.h"
#include "memgest/replica_store.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::memgest {

class MemberShard {
 public:
  MemberShard(rdma::Device* device, GroupId group, ShardId shard, std::uint32_t line_count_max);

  // The memgest becomes foldable here, as a replica. Known already: no-op, as is AddParity.
  void AddReplica(const protocol::MemgestDescriptor& descriptor);
  // ... as a parity. store is the group's, and outlives this.
  void AddParity(const protocol::MemgestDescriptor& descriptor, ParityStore* store);
  // Drops its lines and heap. What its log still says is skipped, but for completion records.
  void RemoveMemgest(MemgestId id);

  // The ring of the present epoch.
  void Attach(std::unique_ptr<LogReader> reader);
  LogReader* reader() { return reader_.get(); }

  // Folds up to `budget` committed entries; gives how many. Prefetches two entries ahead. After it,
  // all entries below the reader's folded position are folded: the caller shares the credit, and
  // only after a Fold that succeeded.
  absl::StatusOr<int> Fold(int budget);

  // Last index folded of a memgest's log here (0: none).
  std::uint64_t applied(MemgestId id) const;
  LineTable& lines() { return lines_; }
  CompletionTable& completions() { return completions_; }
  // Replica's copy of the values; null for a memgest that is not replicated here. Bytes are a
  // version's only while its line holds that version (E3).
  const HeapSpace* replica_heap(MemgestId id) const;
  // Lines, completion records and the address space of replica heaps.
  std::uint64_t resident_bytes() const;

 private:
  static constexpr std::size_t kAhead =
      2;  // entries that are prefetched behind the one being folded

  struct MemgestState {
    protocol::MemgestDescriptor descriptor;
    std::uint64_t applied = 0;
    std::uint64_t ring_index = 0;  // of the last entry in the present ring; 0: none
    bool removed = false;
    std::unique_ptr<ReplicaStore> replica;  // one of the two, unless removed
    ParityStore* parity = nullptr;
  };
  struct Taken {
    EntryView view;
    MemgestState* state = nullptr;
  };

  MemgestState& AddState(const protocol::MemgestDescriptor& descriptor);
  MemgestState* FindState(MemgestId id);
  absl::StatusOr<bool> Take(Taken* taken);
  absl::Status Prepare(const EntryView& entry, MemgestState& state);
  void Prefetch(const EntryView& entry, const MemgestState& state) const;

  absl::Status FoldEntry(const Taken& taken);
  absl::Status CheckIndex(const EntryHeader& header, const MemgestState& state) const;
  absl::Status CheckCollects(const EntryView& entry) const;
  absl::Status EnsureFree(const EntryHeader& header);
  // A replica sums the payload while it copies it, so that here is where damage shows: in a slot
  // that holds no version, as the line is written afterwards.
  absl::Status WriteBytes(const EntryView& entry, MemgestState& state);
  static bool SumsWhileWriting(const EntryHeader& header, const MemgestState& state) {
    return state.replica != nullptr && header.index > state.applied &&
           header.type != EntryType::kRelease;
  }
  void WriteLine(const EntryView& entry);
  void FoldRecord(const EntryHeader& header);

  rdma::Device* device_;
  GroupId group_;
  ShardId shard_;
  LineTable lines_;
  CompletionTable completions_;
  std::unique_ptr<LogReader> reader_;
  absl::flat_hash_map<MemgestId, std::unique_ptr<MemgestState>> states_;
  MemgestState* last_state_ =
      nullptr;  // runs of entries of one memgest, and of one client, are common
  ClientId last_client_id_;
  CompletionTable::Client* last_client_ = nullptr;
  bool fence_ = false;  // weakly ordered stores since the last fence
  absl::Status failure_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_MEMBER_SHARD_H_
