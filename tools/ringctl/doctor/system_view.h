// tools/ringctl/doctor/system_view.h — what of a machine matters to Ring.
//
// What:      SystemView; ReadSystem looks at the machine, once. Checks judge the view and look at
//            nothing else, so that tests judge machines that they make up.
// Units:     bytes.
// Ownership: values.
// Threads:   any.
// Errors:    none: what cannot be read is empty, or 0.
// Cost:      some 3 ms: files of /proc and /sys, and one io_uring that is opened and closed.
#ifndef RING_TOOLS_RINGCTL_DOCTOR_SYSTEM_VIEW_H_
#define RING_TOOLS_RINGCTL_DOCTOR_SYSTEM_VIEW_H_

#include <cstdint>
#include <limits>
#include <string>

#include "tools/ringctl/doctor/rdma_view.h"

namespace ring::tools {

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

struct SystemView {
  RdmaView rdma;

  std::uint64_t memory_available = 0;            // of the machine, or what its control group leaves
  std::uint64_t memlock_max = 0;                 // RLIMIT_MEMLOCK, the hard one
  bool locks_freely = false;                     // CAP_IPC_LOCK: the limit does not count
  std::uint64_t address_space_max = kUnlimited;  // RLIMIT_AS
  bool counts_reservations = false;              // vm.overcommit_memory = 2
  std::uint64_t reservations_left = 0;           // then
  std::string huge_pages;                        // transparent ones: always, madvise, never
  std::string huge_pages_shared;                 // of memfds: advise, within_size, always, ...
  std::uint64_t huge_pages_free = 0;             // reserved ones that nobody uses
  std::uint64_t huge_page_size = 0;
  std::string memfd_error;  // empty: can be made

  std::string clock_source;
  std::string clock_sources;  // that there are
  int processors = 1;

  std::uint64_t descriptors_max = 0;  // RLIMIT_NOFILE, the hard one: ringd takes it
  std::string uring_error;            // empty: the tcp link can use io_uring
  std::uint64_t uring_disabled = 0;   // kernel.io_uring_disabled
};

// root: where /proc, /sys and /dev are, "" for the machine's own. Limits, processors, memfd and
// io_uring are those of this process.
SystemView ReadSystem(const std::string& root);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_SYSTEM_VIEW_H_
