// ring/cluster/default_memgests.h — the memgests of a cluster that names none.
//
// What:      DefaultMemgests(s, d): the seven of the Ring paper (section 6.1: Rep(1) to Rep(4),
//            SRS(2,1), SRS(3,1), SRS(3,2)) that a cluster of (s, d) can hold.
// Shape:     Rep(3) first where it fits, since InitialView makes the first the default one; never
//            empty.
// Threads:   pure.
// Errors:    none.
#ifndef RING_CLUSTER_DEFAULT_MEMGESTS_H_
#define RING_CLUSTER_DEFAULT_MEMGESTS_H_

#include <vector>

#include "ring/protocol/memgest_descriptor.h"

namespace ring::cluster {

// REQUIRES: s >= 1, d >= 0.
std::vector<protocol::MemgestDescriptor> DefaultMemgests(int s, int d);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_DEFAULT_MEMGESTS_H_
