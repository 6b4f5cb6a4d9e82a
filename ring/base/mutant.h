// ring/base/mutant.h — bug switches: each breaks one rule of the protocol, so that a simulation can
// show that it would notice.
//
// What:      Mutant("G2") is true when that switch is on, alone or with another one that covers it.
//            But for the build of the mutants (RING_MUTANTS) it is the constant false.
// Threads:   SetMutant before anything else runs.
// Errors:    none.
// Cost:      nothing, or a comparison of short strings in the build of the mutants.
// Source:    docs/RULES.md: a rule without a killed mutant counts as untested.
#ifndef RING_BASE_MUTANT_H_
#define RING_BASE_MUTANT_H_

#include <cstring>

namespace ring {

#ifdef RING_MUTANTS
inline bool Mutant(const char* id);
// Turns these on, and all others off. "": none. The strings are borrowed.
inline void SetMutant(const char* id, const char* other = "");
namespace internal {
inline const char* active_mutants[] = {"", ""};
}  // namespace internal
#else
constexpr bool Mutant(const char*) { return false; }
#endif

}  // namespace ring

#ifdef RING_MUTANTS
inline bool ring::Mutant(const char* id) {
  return std::strcmp(internal::active_mutants[0], id) == 0 ||
         std::strcmp(internal::active_mutants[1], id) == 0;
}
inline void ring::SetMutant(const char* id, const char* other) {
  internal::active_mutants[0] = id;
  internal::active_mutants[1] = other;
}
#endif

#endif  // RING_BASE_MUTANT_H_
