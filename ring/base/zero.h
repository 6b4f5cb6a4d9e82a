// ring/base/zero.h — whether bytes are all zero.
//
// What:      IsZero.
// Threads:   pure.
// Errors:    none.
// Cost:      one pass over them, as fast as memcmp, up to the first that is not.
#ifndef RING_BASE_ZERO_H_
#define RING_BASE_ZERO_H_

#include <cstddef>
#include <cstring>

namespace ring {

inline bool IsZero(const void* bytes, std::size_t size) {
  const auto* const first = static_cast<const char*>(bytes);
  return size == 0 || (*first == 0 && std::memcmp(first, first + 1, size - 1) == 0);
}

}  // namespace ring

#endif  // RING_BASE_ZERO_H_
