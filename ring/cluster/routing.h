// ring/cluster/routing.h — key to slot, group, shard.
//
// What:      slot = CRC16-XMODEM(key, or its {hash tag}) mod 16384; group = slot mod (s+d);
//            shard = (slot / (s+d)) mod s. The same for every memgest: a reader needs no memgest.
// Ownership: values; no table of slots, so that routing costs no cache lines.
// Threads:   pure.
// Errors:    none.
// Cost:      slice-by-8 CRC16, then four multiplications.
// Source:    docs/ARCHITECTURE.md "The picture"; Redis cluster specification (hash tags).
#ifndef RING_CLUSTER_ROUTING_H_
#define RING_CLUSTER_ROUTING_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/protocol/limits.h"

namespace ring::cluster {

using protocol::kSlotCount;

// CRC16-XMODEM: polynomial 0x1021, initial value 0, not reflected.
std::uint16_t Crc16(absl::string_view bytes);

// The part of a key that places it: what stands between its first '{' and the first '}' after it,
// or the whole key if there is nothing between them.
absl::string_view HashedPart(absl::string_view key);

// CRC16-XMODEM of the key's {hash tag} if it has one that is not empty, else of the whole key, mod
// 16384.
int KeySlot(absl::string_view key);

struct Place {
  GroupId group;
  ShardId shard;
  friend bool operator==(const Place&, const Place&) = default;
};

class Routing {
 public:
  // REQUIRES: s >= 1, d >= 0, s + d <= kSlotCount.
  Routing(int s, int d);

  // REQUIRES: 0 <= slot < kSlotCount.
  Place OfSlot(int slot) const {
    const auto number = static_cast<std::uint32_t>(slot);
    const std::uint32_t round = by_group_.Quotient(number);
    return {
        GroupId(static_cast<std::uint16_t>(number - round * by_group_.divisor)),
        ShardId(static_cast<std::uint16_t>(round - by_shard_.Quotient(round) * by_shard_.divisor))};
  }
  Place OfKey(absl::string_view key) const { return OfSlot(KeySlot(key)); }

 private:
  // Division by a number known late: exact while dividend * divisor <= 2^32, and both are below
  // 2^14 (Granlund and Montgomery, division by invariant integers).
  struct Divider {
    std::uint64_t inverse;  // ceil(2^32 / divisor)
    std::uint32_t divisor;
    std::uint32_t Quotient(std::uint32_t dividend) const {
      return static_cast<std::uint32_t>((dividend * inverse) >> 32);
    }
  };
  static Divider DividerBy(int divisor);

  Divider by_group_;
  Divider by_shard_;
};

}  // namespace ring::cluster

#endif  // RING_CLUSTER_ROUTING_H_
