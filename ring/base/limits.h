// ring/base/limits.h — limits that everyone who uses the store has to know.
//
// What:      kValueSizeMax.
// Units:     bytes.
// Threads:   constants.
// Errors:    none.
#ifndef RING_BASE_LIMITS_H_
#define RING_BASE_LIMITS_H_

#include <cstddef>

namespace ring {

// The most that a cluster may be configured to take, what it takes by default, and the most that a
// client sends or takes.
inline constexpr std::size_t kValueSizeMax = std::size_t{16} << 20;

}  // namespace ring

#endif  // RING_BASE_LIMITS_H_
