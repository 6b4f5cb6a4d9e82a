// ring/protocol/limits.h — sizes that client and node agree on.
//
// What:      Constants, with their relations proved at compile time.
// Units:     bytes, cells of 64 bytes, nanoseconds.
// Threads:   constants.
// Errors:    none.
#ifndef RING_PROTOCOL_LIMITS_H_
#define RING_PROTOCOL_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace ring::protocol {

inline constexpr std::size_t kCell = 64;
inline constexpr std::size_t kKeySizeMax = 1024;
// Larger values are READ and WRITTEN apart.
inline constexpr std::size_t kInlineValueSizeMax = 8 * 1024;
inline constexpr int kSlotCount = 16384;              // that keys hash to
inline constexpr std::size_t kInlineKeySizeMax = 24;  // longer keys stand in cells of their own
inline constexpr std::size_t kRequestRingSize = 64 * 1024;  // of one client at one node
// Also the outstanding operations per client and shard (X4).
inline constexpr std::size_t kReplySlotCountMax = 1024;
// X4: a client sends nothing again after so long, and names itself anew after so long without a
// write. Nodes count its silence in periods of this.
inline constexpr std::uint64_t kSilencePeriodNs = 60'000'000'000;
inline constexpr std::size_t kReplySlotSize = kCell + kInlineValueSizeMax;
inline constexpr std::size_t kRequestSizeMax = 2 * kCell + kKeySizeMax + kInlineValueSizeMax;
static_assert(kRequestSizeMax * 4 < kRequestRingSize);

}  // namespace ring::protocol

#endif  // RING_PROTOCOL_LIMITS_H_
