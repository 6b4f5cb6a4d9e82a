// tests/support/await.h — waits that end, and say what they waited for.
//
// What:      Await: until a condition holds. AwaitOk: until a look gives OK; its message has the
//            last status. HoldsWithin: whether a condition came to hold, for who says more when
//            it did not. LetOthersRun: between two looks.
// Threads:   any; the condition is looked at in the caller's, which sleeps for a moment between two
//            looks. A condition may make progress itself (a device's, a reactor's turn).
// Errors:    Await and AwaitOk end the program when kPatience is over: what comes behind a wait
//            stands on it, and threads and nodes that wait for each other would let no orderly end
//            through. Other tests of the program do not run then; .ci/run says which one it was.
#ifndef RING_TESTS_SUPPORT_AWAIT_H_
#define RING_TESTS_SUPPORT_AWAIT_H_

#include <chrono>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

// turn: between two looks, of who makes all progress itself and needs no pause.
[[nodiscard]] inline bool HoldsWithin(absl::Duration patience, absl::FunctionRef<bool()> condition,
                                      absl::FunctionRef<void()> turn) {
  using Steady = std::chrono::steady_clock;
  const Steady::time_point deadline = Steady::now() + absl::ToChronoNanoseconds(patience);
  while (!condition()) {
    if (Steady::now() > deadline) return false;
    turn();
  }
  return true;
}
// pause: between two looks, where a look is expensive.
[[nodiscard]] inline bool HoldsWithin(absl::Duration patience, absl::FunctionRef<bool()> condition,
                                      absl::Duration pause = absl::ZeroDuration()) {
  return HoldsWithin(patience, condition, [pause] {
    if (pause > absl::ZeroDuration()) {
      absl::SleepFor(pause);
    } else {
      LetOthersRun();
    }
  });
}

// what: completes "waited in vain for".
inline std::string InVain(absl::string_view what) {
  return absl::StrCat("waited ", absl::ToDoubleSeconds(kPatience), " s in vain for: ", what);
}
inline void Await(absl::string_view what, absl::Duration pause,
                  absl::FunctionRef<bool()> condition) {
  RING_CHECK(HoldsWithin(kPatience, condition, pause)) << InVain(what);
}
inline void Await(absl::string_view what, absl::FunctionRef<bool()> condition) {
  Await(what, absl::ZeroDuration(), condition);
}
// look: asks somebody, so the pause between two looks is a longer one.
inline void AwaitOk(absl::string_view what, absl::FunctionRef<absl::Status()> look) {
  absl::Status last;
  const auto looks = [&] { return (last = look()).ok(); };
  RING_CHECK(HoldsWithin(kPatience, looks, absl::Milliseconds(5)))
      << InVain(what) << "; last: " << last;
}

}  // namespace ring::testing

#endif  // RING_TESTS_SUPPORT_AWAIT_H_
