// ring/coordinator/takeover.h — what a new coordinator of a shard begins with.
//
// What:      FoldedShard: the state of a shard as a member folds it, all logs up to their adopted
//            ends. ValueFetcher: the port to whoever brings values that are not on this node.
// Shape:     lines are kCommitted, without prev; granules and lines taken as fold leaves them. Also
//            granules without a line are there, as a snapshot brings them: a granule stays its
//            memgest's (ADR 6). Rep(1) has no member, so what it held is not there (G6).
// Ownership: TakeOver owns the state; the fetcher outlives the coordinator.
// Threads:   one, the node's.
// Errors:    none of its own.
// Source:    step 4 of an epoch change; V2, S4, S5.
#ifndef RING_COORDINATOR_TAKEOVER_H_
#define RING_COORDINATOR_TAKEOVER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "memgest/completion_table.h"
#include "memgest/heap_space.h"
#include "memgest/line_table.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::coordinator {

class ShardCoordinator;

struct FoldedMemgest {
  protocol::MemgestDescriptor descriptor;
  std::uint64_t next_index = 1;  // behind the adopted log
  // Behind the highest cell that an entry ever wrote (S4).
  std::uint64_t end_cells = 0;
  // Of a replica: its values, but for lines that are kAbsent. None: no value is here. A coded
  // memgest has none; all of its blocks are Lost.
  std::optional<memgest::HeapSpace> heap;
};

struct FoldedShard {
  memgest::LineTable lines;
  memgest::CompletionTable completions;
  std::vector<FoldedMemgest> memgests;  // all that the catalogue has, Rep(1) too (V2)
};

class ValueFetcher {
 public:
  virtual ~ValueFetcher() = default;
  // Whether it is known at present who has the value of this line, of this memgest, or that nobody
  // has it; if not, operations that need it are refused as unavailable.
  virtual bool CanBring(std::uint32_t line, MemgestId memgest) const = 0;
  // An operation needs the value of this line. It is pinned until shard.OnValue(line, version, ok)
  // or OnDelay(line), which follows once, from within or later: the bytes can be written into its
  // slot meanwhile; for a coded memgest, the blocks be decoded (SlotAllocator::SetPresent).
  virtual void Want(std::uint32_t line, Version version, ShardCoordinator& shard) = 0;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_TAKEOVER_H_
