// api/admin/known_enum.h — enums that a node of another release may have more values of.
//
// What:      Known.
// Threads:   pure.
// Errors:    none.
#ifndef RING_API_ADMIN_KNOWN_ENUM_H_
#define RING_API_ADMIN_KNOWN_ENUM_H_

#include <algorithm>

namespace ring::admin {

// Of a newer node: what this one does not know is the last that it knows.
template <class Enum>
Enum Known(int value, int max) {
  return static_cast<Enum>(std::clamp(value, 1, max));
}

}  // namespace ring::admin

#endif  // RING_API_ADMIN_KNOWN_ENUM_H_
