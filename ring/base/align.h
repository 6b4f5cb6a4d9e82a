// ring/base/align.h — rounding to powers of two.
//
// What:      AlignUp, IsAligned, kCacheLine.
// Units:     bytes.
// Threads:   pure.
// Errors:    none; alignment must be a power of two.
#ifndef RING_BASE_ALIGN_H_
#define RING_BASE_ALIGN_H_

#include <cstddef>
#include <cstdint>

namespace ring {

inline constexpr std::size_t kCacheLine = 64;

constexpr std::uint64_t AlignUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr bool IsAligned(std::uint64_t value, std::uint64_t alignment) {
  return (value & (alignment - 1)) == 0;
}

}  // namespace ring

#endif  // RING_BASE_ALIGN_H_
