// ec_offload/eco/handles.h — which pointers that a C program hands in are coders of ours.
//
// What:      AddHandle, ReleaseHandle; CallCoder, which runs a call on the coder behind a pointer.
// Ownership: the table shares coders with the calls in flight; the last of them frees.
// Threads:   any. Calls on one coder run one after the other; release waits for the call in flight.
// Errors:    kFailed: null, never a coder, another kind of coder, or released. A pointer whose
//            memory a later coder got cannot be told from that one. -ENOMEM: no memory.
// Cost:      a lock and a look-up. With the checks, 80 ns of a call for k=6, m=3.
#ifndef RING_EC_OFFLOAD_ECO_HANDLES_H_
#define RING_EC_OFFLOAD_ECO_HANDLES_H_

#include <cerrno>
#include <memory>
#include <new>

#include "ec_offload/eco/coder.h"
#include "ring/base/sync.h"

namespace ring::ec_offload::eco {

enum class Kind { kContext, kEncoder, kDecoder };

// The handle of a coder; of an encoder or decoder also its context, as a handle that can be used
// but not released: it goes with the coder.
void AddHandle(const void* handle, Kind kind, std::shared_ptr<Coder> coder);
// Null when the handle is none of this kind.
std::shared_ptr<Coder> FindHandle(const void* handle, Kind kind);

// call(coder), with T the class behind the kind.
template <class T, class Call>
int CallCoder(const void* handle, Kind kind, const Call& call) {
  const std::shared_ptr<Coder> coder = FindHandle(handle, kind);
  if (coder == nullptr) return kFailed;
  const MutexLock lock(coder->mutex);
  if (coder->released) return kFailed;
  try {
    return call(static_cast<T&>(*coder));
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

// From here on calls on the handle fail; when this returns, none is in flight, and nothing is on
// the calculator of the coder. In a completion of that calculator: kFailed, and nothing is done.
int ReleaseHandle(const void* handle, Kind kind);

// The handle that make() gives; null, with errno set, when it gives none.
template <class Make>
auto NewHandle(const Make& make) -> decltype(make()) {
  try {
    auto* const handle = make();
    if (handle == nullptr) errno = EINVAL;
    return handle;
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
}

}  // namespace ring::ec_offload::eco

#endif  // RING_EC_OFFLOAD_ECO_HANDLES_H_
