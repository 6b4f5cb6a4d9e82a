// ring/cluster/active_roles.h — who holds a memgest in a shard, and who of them counts by the
// shard's last Normal record.
//
// What:      MembersOf: by placement. ActiveFor, CompleteFor: by the record, for memgests that are
//            younger than it, too. MembersMin: how many must count so that entries are accepted.
// Shape:     masks: bit x for role x; the coordinator's role is among them.
// Threads:   pure.
// Errors:    none.
// Source:    docs/GLOSSARY.md (ACTIVE, commit rule); rules L7, G11, S13.
#ifndef RING_CLUSTER_ACTIVE_ROLES_H_
#define RING_CLUSTER_ACTIVE_ROLES_H_

#include <cstdint>

#include "ring/base/id.h"
#include "ring/cluster/normal_record.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::cluster {

// Of a cluster of s shards and d redundant roles a group.
RoleMask MembersOf(const protocol::MemgestDescriptor& memgest, ShardId shard, int s, int d);

// The members that the record counts. For one that is younger than the record, those that it counts
// for another memgest: they had a ring when the memgest was made, and have all of it. Of a role
// that no memgest of the record is at, the record does not say whether anybody is there: it counts
// once a further record names it.
RoleMask ActiveFor(const NormalRecord& normal, const protocol::MemgestDescriptor& memgest,
                   ShardId shard, int s, int d);

// ... and those of them that have all values and blocks: what is younger than the record began with
// all of it.
RoleMask CompleteFor(const NormalRecord& normal, const protocol::MemgestDescriptor& memgest,
                     ShardId shard, int s, int d);

// How many must count, the coordinator among them, so that new entries are accepted (S13).
int MembersMin(const protocol::MemgestDescriptor& memgest);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_ACTIVE_ROLES_H_
