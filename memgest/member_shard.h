// memgest/member_shard.h — a redundant node's state of one (group, shard), and the folding of its ring.
//
// What:      Metadata lines, completion records and replica heaps of the shard's memgests that have this node as a
//            member; parity stores are the group's and shared by its shards. Fold takes committed entries from the ring.
// Shape:     one per (group, shard) and node that is not the shard's coordinator.
// Ownership: owns lines, completion table, replica heaps; borrows device and parity stores.
// Threads:   one, the node's.
// Errors:    Fold: kDataLoss for a ring that is corrupt below its commit position, or an entry that contradicts the
//            folded state: then nothing of the entry was folded, and the member counts as failed.
// Cost:      one copy (replica) or one read-modify-write (parity) of the payload, one metadata line, no hash table.
// Source:    Ring section 5.2; protocol rules E5, E9, G2, S1, S10, X2.
#ifndef RING_MEMGEST_MEMBER_SHARD_H_
#define RING_MEMGEST_MEMBER_SHARD_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "memgest/completion_table.h"
#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "memgest/log_reader.h"
#include "memgest/parity_store.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::memgest {

class MemberShard {
 public:
  MemberShard(rdma::Device* device, GroupId group, ShardId shard, std::uint32_t line_count_max);

  // The memgest becomes foldable here, as a replica.
  void AddReplica(const protocol::MemgestDescriptor& descriptor);
  // ... as a parity. store is the group's, and outlives this.
  void AddParity(const protocol::MemgestDescriptor& descriptor, ParityStore* store);
  void RemoveMemgest(MemgestId id);

  // The ring of the present epoch.
  void Attach(std::unique_ptr<LogReader> reader);
  LogReader* reader() { return reader_.get(); }

  // Folds up to `budget` committed entries; gives how many. Stages prefetches two entries ahead.
  absl::StatusOr<int> Fold(int budget);

  // Last index folded of a memgest's log here (0: none).
  std::uint64_t applied(MemgestId id) const;
  LineTable& lines() { return lines_; }
  CompletionTable& completions() { return completions_; }
  // Replica's copy of a committed version's bytes; null if this line does not hold that version (E3).
  const HeapSpace* replica_heap(MemgestId id) const;
  std::uint64_t resident_bytes() const;

 private:
  rdma::Device* device_;
  GroupId group_;
  ShardId shard_;
  LineTable lines_;
  CompletionTable completions_;
  std::unique_ptr<LogReader> reader_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_MEMBER_SHARD_H_
