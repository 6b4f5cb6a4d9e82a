// tests/support/sanitized.h — whether this is a build with a sanitizer.
//
// What:      kSanitized: a test takes several times as long, and freed memory is kept for a while.
// Threads:   any.
// Errors:    none.
#ifndef RING_TESTS_SUPPORT_SANITIZED_H_
#define RING_TESTS_SUPPORT_SANITIZED_H_

namespace ring::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace ring::testing

#endif  // RING_TESTS_SUPPORT_SANITIZED_H_
