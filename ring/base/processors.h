// ring/base/processors.h — how many processors there are, and whether threads may poll on them.
//
// What:      ProcessorCount is the machine's, also where a thread was pinned. MayPoll is the one
//            rule for threads that poll: with more of them than processors, a turn without work
//            takes the processor from whoever has some, so none of them polls without work.
// Threads:   any.
// Errors:    none: a count that the system does not tell is taken for one.
#ifndef RING_BASE_PROCESSORS_H_
#define RING_BASE_PROCESSORS_H_

#include <algorithm>
#include <thread>

namespace ring {

inline int ProcessorCount() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

constexpr bool MayPoll(int poller_count, int processor_count) {
  return poller_count <= processor_count;
}

}  // namespace ring

#endif  // RING_BASE_PROCESSORS_H_
