// memgest/coordinator_snapshot.h — the metadata of some logs, taken from the shard's coordinator.
//
// What:      The same as MemberShard::TakeSnapshot gives at a member that has folded all that is
//            committed: lines that are not committed are still to come by the log, and so are
//            collections; lines whose collection is committed are gone, also those that are
//            pinned, or that a member may still have (G2).
// Shape:     end_cells are whole blocks here, and count blocks that were given out and not written.
// Ownership: as memgest/snapshot_cursor.h; the rest is borrowed for the call.
// Threads:   one, the node's.
// Errors:    those of the cursor.
// Cost:      those of the cursor.
// Source:    rule L7; step 4 of an epoch change.
#ifndef RING_MEMGEST_COORDINATOR_SNAPSHOT_H_
#define RING_MEMGEST_COORDINATOR_SNAPSHOT_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "memgest/completion_table.h"
#include "memgest/line_table.h"
#include "memgest/memgest.h"
#include "memgest/shard_log.h"
#include "memgest/snapshot_cursor.h"

namespace ring::memgest {

// logs: memgests that have members. lingering: lines whose collection was acted upon, and that are
// not free yet. REQUIRES: between two calls of ShardLog::AdvanceCommit, with what each of them said
// acted upon. Who marks a line as committed, or acts upon a collection, saves its granule before.
std::shared_ptr<SnapshotCursor> TakeCoordinatorSnapshot(std::uint64_t id, const LineTable& lines,
                                                        const CompletionTable& completions,
                                                        const ShardLog& log,
                                                        absl::Span<Memgest* const> logs,
                                                        absl::Span<const std::uint32_t> lingering,
                                                        std::size_t piece_size);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_COORDINATOR_SNAPSHOT_H_
