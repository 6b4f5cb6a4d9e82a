// ring/cluster/fields.h — parts that stand in views and in commands alike.
//
// What:      Put and Read of a node's description and of one memgest's part of a Normal record, so
//            that both encodings have them byte for byte the same.
// Shape:     Read gives nullopt when the bytes end within the part or hold what it cannot be; then
//            the reader's position means nothing.
// Threads:   pure.
// Errors:    nullopt; the caller names what it was reading.
#ifndef RING_CLUSTER_FIELDS_H_
#define RING_CLUSTER_FIELDS_H_

#include <optional>

#include "ring/base/wire.h"
#include "ring/cluster/normal_record.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

// u32 id, u64 incarnation, u8 status, seven strings. Any status code is read: Validate looks at it.
void PutNode(ByteWriter& out, const NodeInfo& node);
std::optional<NodeInfo> ReadNode(ByteReader& in);

// u16 id, u8 lost, u32 active, u32 complete, u8-counted (u8 role, u64 extent).
void PutMemgestNormal(ByteWriter& out, const MemgestNormal& memgest);
std::optional<MemgestNormal> ReadMemgestNormal(ByteReader& in);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_FIELDS_H_
