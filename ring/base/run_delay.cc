#include "ring/base/run_delay.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

namespace ring {

RunDelay::RunDelay() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

RunDelay::~RunDelay() {
  if (file_ >= 0) close(file_);
}

std::optional<std::uint64_t> RunDelay::ReadNs() const {
  char text[80];
  const ssize_t size = file_ < 0 ? -1 : pread(file_, text, sizeof(text) - 1, 0);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  std::uint64_t ran_ns = 0;
  std::uint64_t waited_ns = 0;
  std::uint64_t slices = 0;
  const int fields =
      std::sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &ran_ns, &waited_ns, &slices);
  // Who reads it runs, for the first time at least: else the system does not count.
  if (fields != 3 || slices == 0) return std::nullopt;
  return waited_ns;
}

}  // namespace ring
