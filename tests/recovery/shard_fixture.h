// tests/recovery/shard_fixture.h — a shard and its holders, for tests of epoch changes.
//
// What:      Memgests, role holders and their short names.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TESTS_RECOVERY_SHARD_FIXTURE_H_
#define RING_TESTS_RECOVERY_SHARD_FIXTURE_H_

#include <cstdint>

#include "ring/protocol/memgest_descriptor.h"
#include "ring/recovery/epoch_change.h"

namespace ring::recovery {

inline constexpr int kS = 3;
inline constexpr int kD = 2;
inline constexpr MemgestId kRep3(1);
inline constexpr MemgestId kSrs32(2);

inline protocol::MemgestDescriptor Rep(MemgestId id, int r) {
  protocol::MemgestDescriptor memgest;
  memgest.id = id;
  memgest.r = static_cast<std::uint8_t>(r);
  return memgest;
}

inline protocol::MemgestDescriptor Srs(MemgestId id, int k, int m) {
  protocol::MemgestDescriptor memgest;
  memgest.id = id;
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.k = static_cast<std::uint8_t>(k);
  memgest.m = static_cast<std::uint8_t>(m);
  return memgest;
}

inline cluster::MemgestNormal Set(MemgestId id, RoleMask active, RoleMask complete) {
  cluster::MemgestNormal set;
  set.id = id;
  set.active = active;
  set.complete = complete;
  return set;
}

inline cluster::Holder At(std::uint32_t node, std::uint64_t incarnation = 1) {
  return {NodeId(node), Incarnation(incarnation)};
}

}  // namespace ring::recovery

#endif  // RING_TESTS_RECOVERY_SHARD_FIXTURE_H_
