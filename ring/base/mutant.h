// ring/base/mutant.h — bug switches: each breaks one rule of the protocol, so that a simulation can
// show that it would notice.
//
// What:      Mutant("G2") is true when that switch is on. In every build but that of the mutants
//            (RING_MUTANTS) it is the constant false and its branch is gone.
// Threads:   SetMutant before anything else runs.
// Errors:    none.
// Cost:      nothing, or a comparison of short strings in the build of the mutants.
// Source:    protocol rules: a rule without a killed mutant counts as untested.
#ifndef RING_BASE_MUTANT_H_
#define RING_BASE_MUTANT_H_

#include <cstring>

namespace ring {

#ifdef RING_MUTANTS
namespace internal {
inline const char* active_mutant = "";
}  // namespace internal
inline bool Mutant(const char* id) { return std::strcmp(internal::active_mutant, id) == 0; }
// "": none. The string is borrowed.
inline void SetMutant(const char* id) { internal::active_mutant = id; }
#else
constexpr bool Mutant(const char*) { return false; }
#endif

}  // namespace ring

#endif  // RING_BASE_MUTANT_H_
