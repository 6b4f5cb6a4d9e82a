// memgest/replicated_memgest.h — a put's bytes on their way to replicas.
//
// What:      AppendReplicated appends an entry whose payload is the value in its slot: one
//            gather-WRITE [head | value | trailer] per replica, straight from the heap.
// Ownership: the slot's bytes belong to the device until every member acknowledged the entry (G2
//            waits for that).
// Threads:   one, the node's.
// Errors:    none: room was reserved before (V5).
// Source:    Ring section 5.2; rules G2, S10, V5.
#ifndef RING_MEMGEST_REPLICATED_MEMGEST_H_
#define RING_MEMGEST_REPLICATED_MEMGEST_H_

#include "memgest/memgest.h"
#include "memgest/shard_log.h"

namespace ring::memgest {

// REQUIRES: !memgest.coded(); the payload's bytes stand in the heap at fields.offset_cells.
Pending& AppendReplicated(ShardLog& log, Memgest& memgest, const EntryFields& fields);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_REPLICATED_MEMGEST_H_
