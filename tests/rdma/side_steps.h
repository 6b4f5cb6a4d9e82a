// tests/rdma/side_steps.h — one process's side of a connection to another process.
//
// What:      Until and AwaitEvent make progress on a Side until something is so; NameOf and
//            BufferOf are its memory as private data of the connection.
// Threads:   the side's.
// Errors:    false after the deadline.
#ifndef RING_TESTS_RDMA_SIDE_STEPS_H_
#define RING_TESTS_RDMA_SIDE_STEPS_H_

#include <cstring>
#include <string>

#include "absl/functional/function_ref.h"
#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {

inline bool Until(Side& side, absl::FunctionRef<bool()> condition) {
  return testing::HoldsWithin(testing::kPatience, [&] {
    side.CollectEvents();
    return condition();
  });
}

inline bool AwaitEvent(Side& side, ConnectionEvent::Kind kind, ConnectionEvent* event) {
  return Until(side, [&] { return side.TakeEvent(kind, event); });
}

inline std::string NameOf(const Side& side) {
  const RemoteBuffer remote = side.region->remote();
  return std::string(reinterpret_cast<const char*>(&remote), sizeof(remote));
}

// All zeros if it is none.
inline RemoteBuffer BufferOf(const std::string& name) {
  RemoteBuffer remote;
  if (name.size() == sizeof(remote)) std::memcpy(&remote, name.data(), sizeof(remote));
  return remote;
}

}  // namespace ring::rdma

#endif  // RING_TESTS_RDMA_SIDE_STEPS_H_
