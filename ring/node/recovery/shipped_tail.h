// ring/node/recovery/shipped_tail.h — entries of adopted logs for the members that lack them.
//
// What:      ShippedTail keeps the raw entries that a new coordinator fetched, and gives them to
//            its log, from which members get what they lack: so one that had a few entries less
//            than another when their coordinator was lost goes on, and need not begin anew.
// Shape:     by log, in order. A delta is kept as the parity that shipped it had it; the others
//            get it with their own factor.
// Ownership: owns the bytes until AdoptInto, which copies them to arena memory.
// Threads:   one, the node's.
// Errors:    a log that is too long for what a coordinator keeps is left out whole: who lacks
//            entries of it joins. AdoptInto: kInternal if the log refuses what it has room for.
// Source:    step 5 of an epoch change; S8.
#ifndef RING_NODE_RECOVERY_SHIPPED_TAIL_H_
#define RING_NODE_RECOVERY_SHIPPED_TAIL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "memgest/delta_arena.h"
#include "memgest/log_entry.h"
#include "ring/base/id.h"
#include "ring/coordinator/shard.h"

namespace ring::node {

class ShippedTail {
 public:
  // In order of each log; source: the role of who shipped it.
  void Keep(const memgest::EntryView& entry, Role source);
  // REQUIRES: no member has its writer yet (ShardLog::Adopt).
  absl::Status AdoptInto(coordinator::ShardCoordinator* coordinator, memgest::DeltaArena* arena);

 private:
  struct Entry {
    std::string head;  // header and extension
    std::string payload;
    std::uint32_t offset_cells = 0;
  };
  struct Log {
    Role source;
    bool damaged = false;  // an entry's payload is
    std::vector<Entry> entries;
  };

  absl::Status AdoptLog(const Log& log, memgest::Memgest& memgest,
                        coordinator::ShardCoordinator* coordinator, memgest::DeltaArena* arena);

  std::map<MemgestId, Log> logs_;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_SHIPPED_TAIL_H_
