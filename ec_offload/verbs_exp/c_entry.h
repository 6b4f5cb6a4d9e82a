// ec_offload/verbs_exp/c_entry.h — how the exported C functions end.
//
// What:      Refused: a null pointer with errno. OrNoMemory: a call whose std::bad_alloc ends here,
//            as nothing may be thrown through the frames of a C program.
// Threads:   any; errno is the thread's.
// Errors:    these are the errors.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_C_ENTRY_H_
#define RING_EC_OFFLOAD_VERBS_EXP_C_ENTRY_H_

#include <cerrno>
#include <new>

namespace ring::ec_verbs {

template <class T>
T* Refused(int error) {
  errno = error;
  return nullptr;
}

// call(), or, where there is no memory for it, `no_memory` with errno set to ENOMEM.
template <class Result, class Call>
Result OrNoMemory(Result no_memory, const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return no_memory;
  }
}

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_C_ENTRY_H_
