// ec_offload/verbs_exp/real_verbs.h — the libibverbs of the system, behind symbols of its names.
//
// What:      RealSymbol finds a function of libibverbs.so.1; RING_REAL is that function, and
//            CallReal calls one that an older library may not have.
// Threads:   any.
// Errors:    null where there is no such library or no such function in it.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_REAL_VERBS_H_
#define RING_EC_OFFLOAD_VERBS_EXP_REAL_VERBS_H_

#include <cerrno>

namespace ring::ec_verbs {

void* RealSymbol(const char* name);

// real(arguments...), or `absent` with errno set to EOPNOTSUPP where there is no such function.
template <class Result, class... Parameters, class... Arguments>
Result CallReal(Result (*real)(Parameters...), Result absent, Arguments... arguments) {
  if (real != nullptr) return real(arguments...);
  errno = EOPNOTSUPP;
  return absent;
}

}  // namespace ring::ec_verbs

// The function `name` of the system's library, as a pointer; looked up once.
#define RING_REAL(name)                                                         \
  ([]() -> decltype(&name) {                                                    \
    static const auto ring_real_symbol =                                        \
        reinterpret_cast<decltype(&name)>(::ring::ec_verbs::RealSymbol(#name)); \
    return ring_real_symbol;                                                    \
  }())

#endif  // RING_EC_OFFLOAD_VERBS_EXP_REAL_VERBS_H_
