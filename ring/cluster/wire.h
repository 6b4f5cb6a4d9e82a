// ring/cluster/wire.h — the encodings of this folder are written with ring/base/wire.h.
//
// What:      its names in this namespace, for those who say cluster::ByteReader.
// Threads:   thread-compatible.
// Errors:    as there.
#ifndef RING_CLUSTER_WIRE_H_
#define RING_CLUSTER_WIRE_H_

#include "ring/base/wire.h"

namespace ring::cluster {

using ring::ByteReader;
using ring::ByteWriter;

}  // namespace ring::cluster

#endif  // RING_CLUSTER_WIRE_H_
