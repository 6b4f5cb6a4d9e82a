// ring/base/id.h — strong integer ids.
//
// What:      Id<Tag, Rep>: an integer that does not mix with others; the ids every layer shares; a
//            set of roles.
// Threads:   value type.
// Errors:    none.
#ifndef RING_BASE_ID_H_
#define RING_BASE_ID_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace ring {

template <class Tag, class Rep>
class Id {
 public:
  using rep = Rep;
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;
  template <class H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Rep value_{};
};

using NodeId = Id<struct NodeIdTag, std::uint32_t>;            // index in the cluster's node list
using Incarnation = Id<struct IncarnationTag, std::uint64_t>;  // one start of a node's process
using GroupId = Id<struct GroupIdTag, std::uint16_t>;          // memgest group, 0 .. s+d-1
using ShardId = Id<struct ShardIdTag, std::uint16_t>;          // shard of a group, 0 .. s-1
using Role = Id<struct RoleTag, std::uint16_t>;                // role of a group, 0 .. s+d-1
using MemgestId = Id<struct MemgestIdTag, std::uint16_t>;      // never reused (V2)
using Epoch = Id<struct EpochTag, std::uint32_t>;              // of a group, u24, dense

// A set of roles of one group, bit x for role x: s + d are at most 20.
using RoleMask = std::uint32_t;
inline constexpr RoleMask kAllRoles = ~RoleMask{0};
constexpr RoleMask RoleBit(Role role) { return RoleMask{1} << role.value(); }
// Whether a mask, of roles or of anything else, has a bit.
constexpr bool Has(std::uint32_t mask, std::size_t bit) { return (mask >> bit & 1) != 0; }
constexpr bool Has(RoleMask roles, Role role) { return Has(roles, role.value()); }

// No memgest has the highest number: it stands for "none of them" in completion records.
inline constexpr MemgestId kNoMemgest{0xffff};
inline constexpr MemgestId kMemgestIdMax{0xfffe};

// (epoch, tenure counter), compared lexicographically; 0 is "no version" (V1).
class Version {
 public:
  static constexpr int kCounterBits = 40;
  static constexpr std::uint64_t kCounterMax = (std::uint64_t{1} << kCounterBits) - 1;
  constexpr Version() = default;
  constexpr explicit Version(std::uint64_t bits) : bits_(bits) {}
  constexpr Version(Epoch epoch, std::uint64_t counter)
      : bits_((std::uint64_t{epoch.value()} << kCounterBits) | counter) {}
  constexpr Epoch epoch() const { return Epoch(static_cast<std::uint32_t>(bits_ >> kCounterBits)); }
  constexpr std::uint64_t counter() const { return bits_ & kCounterMax; }
  constexpr std::uint64_t bits() const { return bits_; }
  friend constexpr auto operator<=>(Version, Version) = default;

 private:
  std::uint64_t bits_ = 0;
};

// "EPOCH.COUNTER", as people read it.
inline std::string ToString(Version version) {
  return std::to_string(version.epoch().value()) + "." + std::to_string(version.counter());
}

}  // namespace ring

#endif  // RING_BASE_ID_H_
