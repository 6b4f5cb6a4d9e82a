// tests/support/await.h — waits that end, and say what they waited for.
//
// What:      Await: until a condition holds. HoldsWithin: whether it did, for who says more when it
//            did not. LetOthersRun: between two looks.
// Threads:   any; the condition is looked at in the caller's, which sleeps for a moment between two
//            looks. A condition may make progress itself (a device's, a reactor's turn).
// Errors:    Await ends the program when kPatience is over: what comes behind a wait stands on it,
//            and threads and nodes that wait for each other would let no orderly end through. Other
//            tests of the program do not run then; .ci/run says which one it was.
#ifndef RING_TESTS_SUPPORT_AWAIT_H_
#define RING_TESTS_SUPPORT_AWAIT_H_

#include <chrono>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ring/base/check.h"

namespace ring::testing {

// Only a hang reaches it, on a loaded machine and under a sanitizer too; shorter than ctest's 120 s
// for a test.
inline constexpr absl::Duration kPatience = absl::Seconds(90);

// Not a yield: Linux 6.18 puts a thread that yields often behind all others, for seconds where
// these do so too.
inline void LetOthersRun() { absl::SleepFor(absl::Microseconds(20)); }

// pause: between two looks, where a look is expensive.
[[nodiscard]] inline bool HoldsWithin(absl::Duration patience, absl::FunctionRef<bool()> condition,
                                      absl::Duration pause = absl::ZeroDuration()) {
  using Steady = std::chrono::steady_clock;
  const Steady::time_point deadline = Steady::now() + absl::ToChronoNanoseconds(patience);
  while (!condition()) {
    if (Steady::now() > deadline) return false;
    if (pause > absl::ZeroDuration()) {
      absl::SleepFor(pause);
    } else {
      LetOthersRun();
    }
  }
  return true;
}

// what: completes "waited in vain for".
inline void Await(absl::string_view what, absl::Duration pause,
                  absl::FunctionRef<bool()> condition) {
  RING_CHECK(HoldsWithin(kPatience, condition, pause))
      << "waited " << absl::ToDoubleSeconds(kPatience) << " s in vain for: " << what;
}
inline void Await(absl::string_view what, absl::FunctionRef<bool()> condition) {
  Await(what, absl::ZeroDuration(), condition);
}

}  // namespace ring::testing

#endif  // RING_TESTS_SUPPORT_AWAIT_H_
