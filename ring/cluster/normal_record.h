// ring/cluster/normal_record.h — who counts in one shard, since when: the record that ends an epoch
// change.
//
// What:      NormalRecord: the epoch in which a shard became normal, the holders of the group's
//            roles then, and for each memgest which of them are ACTIVE, which are data-complete,
//            and from which extent on a new parity counts (S6). The next epoch change seals what
//            the last record names, (node, incarnation) by (node, incarnation).
// Shape:     holders has one entry a role, vacant ones {kNoNode, 0}; memgests ascend by id; masks
//            have bit x for role x.
// Units:     extents.
// Ownership: values.
// Threads:   value type.
// Errors:    none.
// Source:    docs/GLOSSARY.md (Normal, ACTIVE, data-complete); rules L7, S6, E8.
#ifndef RING_CLUSTER_NORMAL_RECORD_H_
#define RING_CLUSTER_NORMAL_RECORD_H_

#include <cstdint>
#include <vector>

#include "ring/base/id.h"

namespace ring::cluster {

// Who has a role, since which of its starts.
struct Holder {
  NodeId node;
  Incarnation incarnation;
  friend bool operator==(const Holder&, const Holder&) = default;
};

// A parity that counts only for entries in extents from this one on, until it is rebuilt (S6).
struct ActiveFrom {
  Role role;
  std::uint64_t extent = 0;
  friend bool operator==(const ActiveFrom&, const ActiveFrom&) = default;
};

struct MemgestNormal {
  MemgestId id;
  RoleMask active = 0;                  // has all metadata and every entry since
  RoleMask complete = 0;                // of the active ones: has all values or blocks, too
  bool lost = false;                    // more was lost than it survives, and that was accepted
  std::vector<ActiveFrom> active_from;  // roles ascend; extent > 0
  // Lost in this epoch or an earlier one, and who wrote before that may still ask again (X7).
  bool records_lost = false;
  friend bool operator==(const MemgestNormal&, const MemgestNormal&) = default;
};

struct NormalRecord {
  Epoch epoch;  // 0: the shard was never normal
  std::vector<Holder> holders;
  std::vector<MemgestNormal> memgests;
  const MemgestNormal* Find(MemgestId id) const {
    for (const MemgestNormal& memgest : memgests) {
      if (memgest.id == id) return &memgest;
    }
    return nullptr;
  }
  friend bool operator==(const NormalRecord&, const NormalRecord&) = default;
};

}  // namespace ring::cluster

#endif  // RING_CLUSTER_NORMAL_RECORD_H_
