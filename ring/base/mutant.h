// ring/base/mutant.h — bug switches: each breaks one rule of the protocol, so that a simulation can
// show that it would notice.
//
// What:      Mutant("G2") is true when that switch is on, alone or with another one that covers it.
//            A switch that is probed is off, and tells where it would act.
//            But for the build of the mutants (RING_MUTANTS) it is the constant false.
// Threads:   SetMutant before anything else runs, and what is told is told on its thread.
// Errors:    none.
// Cost:      nothing, or a comparison of short strings in the build of the mutants.
// Source:    docs/RULES.md: a rule without a killed mutant counts as untested.
#ifndef RING_BASE_MUTANT_H_
#define RING_BASE_MUTANT_H_

#include <cstring>
#include <functional>
#include <utility>

namespace ring {

// Is called where the code comes to a switch that is on, or probed. Empty: nobody is.
using MutantListener = std::function<void()>;

#ifdef RING_MUTANTS
inline bool Mutant(const char* id);
// Turns these on, or probes them, and turns all others off. "": none. The strings are borrowed.
inline void SetMutant(const char* id, const char* other = "", bool probes = false);
inline void SetMutantListener(MutantListener listener);
namespace internal {
inline const char* active_mutants[] = {"", ""};
inline bool mutants_are_probed = false;
inline MutantListener mutant_listener;
}  // namespace internal
#else
constexpr bool Mutant(const char*) { return false; }
inline void SetMutantListener(const MutantListener&) {}
#endif

}  // namespace ring

#ifdef RING_MUTANTS
inline bool ring::Mutant(const char* id) {
  if (std::strcmp(internal::active_mutants[0], id) != 0 &&
      std::strcmp(internal::active_mutants[1], id) != 0)
    return false;
  if (internal::mutant_listener) internal::mutant_listener();
  return !internal::mutants_are_probed;
}
inline void ring::SetMutant(const char* id, const char* other, bool probes) {
  internal::active_mutants[0] = id;
  internal::active_mutants[1] = other;
  internal::mutants_are_probed = probes;
}
inline void ring::SetMutantListener(MutantListener listener) {
  internal::mutant_listener = std::move(listener);
}
#endif

#endif  // RING_BASE_MUTANT_H_
