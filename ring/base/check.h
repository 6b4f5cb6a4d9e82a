// ring/base/check.h — broken invariants end the process, in every build.
//
// What:      RING_CHECK(condition) << "why"; prints file, line, condition and text, then aborts.
//            RING_DCHECK is the same in debug builds and nothing in release: only for O(n) checks.
// Threads:   any.
// Errors:    none: an expected failure is an absl::Status, never a check.
// Cost:      one predicted branch.
#ifndef RING_BASE_CHECK_H_
#define RING_BASE_CHECK_H_

#include <sstream>

namespace ring::internal {

// Collects the message and aborts at the end of the full expression.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives the streamed expression type void, so that it fits the other arm of ?:.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace ring::internal

#define RING_CHECK(condition)         \
  __builtin_expect(!!(condition), 1)  \
      ? (void)0                       \
      : ::ring::internal::Voidify() & \
            ::ring::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#ifdef NDEBUG
#define RING_DCHECK(condition) RING_CHECK(true || (condition))
#else
#define RING_DCHECK(condition) RING_CHECK(condition)
#endif

#endif  // RING_BASE_CHECK_H_
