// ring/cluster/routing.h — key to slot, group, shard.
//
// What:      slot = CRC16-XMODEM(key, or its {hash tag}) mod 16384; group = slot mod (s+d);
//            shard = (slot / (s+d)) mod s. The same for every memgest: a reader needs no memgest.
// Threads:   pure.
// Errors:    none.
// Cost:      slice-by-8 CRC16 for short keys, then two table look-ups.
// Source:    architecture section 3; Redis cluster specification (hash tags).
#ifndef RING_CLUSTER_ROUTING_H_
#define RING_CLUSTER_ROUTING_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::cluster {

inline constexpr int kSlotCount = 16384;

// CRC16-XMODEM of the key's {hash tag} if it has one that is not empty, else of the whole key, mod
// 16384.
int KeySlot(absl::string_view key);

struct Place {
  GroupId group;
  ShardId shard;
};

class Routing {
 public:
  // REQUIRES: s >= 1, s + d >= 1.
  Routing(int s, int d);
  Place OfSlot(int slot) const { return places_[static_cast<std::size_t>(slot)]; }
  Place OfKey(absl::string_view key) const { return OfSlot(KeySlot(key)); }

 private:
  std::vector<Place> places_;  // by slot
};

}  // namespace ring::cluster

#endif  // RING_CLUSTER_ROUTING_H_
