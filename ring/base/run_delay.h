// ring/base/run_delay.h — how long a thread waited for a processor.
//
// What:      RunDelay reads what the system counts of the thread that made it: nanoseconds in which
//            it could have run, and others did.
// Ownership: owns a file of the system.
// Threads:   any may read.
// Errors:    none: where the system does not count (no schedstats), nothing is known.
// Cost:      a system call, about a microsecond.
// Source:    Linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat.
#ifndef RING_BASE_RUN_DELAY_H_
#define RING_BASE_RUN_DELAY_H_

#include <cstdint>
#include <optional>

namespace ring {

class RunDelay {
 public:
  RunDelay();
  ~RunDelay();
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  // Since the thread began.
  std::optional<std::uint64_t> ReadNs() const;

 private:
  int file_ = -1;
};

}  // namespace ring

#endif  // RING_BASE_RUN_DELAY_H_
