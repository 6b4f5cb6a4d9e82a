// memgest/srs_memgest.h — a put's bytes on their way to parities.
//
// What:      AppendCoded encodes the change of a slot and appends it: one calculation over the old
//            and the new bytes gives each parity its delta, already multiplied, with its CRC, and
//            leaves the new bytes in the slot; then one gather-WRITE [head | delta | trailer] per
//            parity. The calculation is this thread's, or the device's where the log has a queue
//            for that (calc_queue.h): then it may end after the call, and the WRITEs, and the
//            slot's new bytes, follow it. The entries are the same.
// Shape:     deltas stand in `scratch` behind value_size bytes, each on a 64-byte boundary.
// Ownership: the scratch belongs to the device until every parity acknowledged the entry; the log
//            gives it back then.
// Threads:   one, the node's.
// Errors:    none: room was reserved before (V5), and the calculator of a delta cannot refuse.
// Cost:      one pass over old and new bytes; see ec_offload/delta_calculator.h.
// Source:    Ring section 5.3; rules S3, S8, S11, S14.
#ifndef RING_MEMGEST_SRS_MEMGEST_H_
#define RING_MEMGEST_SRS_MEMGEST_H_

#include <cstddef>

#include "memgest/delta_arena.h"
#include "memgest/memgest.h"
#include "memgest/shard_log.h"

namespace ring::memgest {

// Bytes of scratch for the deltas of a payload.
std::size_t DeltaSize(const Memgest& memgest, std::uint32_t payload_length);

// new_bytes: the payload, anywhere but in the slot; the slot still holds the old bytes, whatever
// they are (S3). The device calculates only what stands in the first value_size bytes of scratch,
// which it may read. REQUIRES: memgest.coded().
Pending& AppendCoded(ShardLog& log, Memgest& memgest, const EntryFields& fields,
                     const std::byte* new_bytes, const DeltaArena::Piece& scratch,
                     std::size_t value_size);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SRS_MEMGEST_H_
