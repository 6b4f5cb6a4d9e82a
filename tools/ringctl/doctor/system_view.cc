#include "tools/ringctl/doctor/system_view.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "rdma/soft/uring_receiver.h"
#include "ring/base/processors.h"
#include "tools/ringctl/doctor/card_limits.h"
#include "tools/ringctl/doctor/files.h"

namespace ring::tools {
namespace {

constexpr int kCapIpcLock = 14;  // linux/capability.h

// The value of a line "NAME:   VALUE" of a file such as /proc/meminfo.
std::string Field(const std::string& text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, ":")) continue;
    return std::string(absl::StripAsciiWhitespace(line));
  }
  return "";
}

// "123 kB" in bytes, "123" as it is.
std::uint64_t Amount(absl::string_view text) {
  const bool kib = absl::ConsumeSuffix(&text, " kB");
  std::uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return 0;
  return kib ? number * 1024 : number;
}

std::uint64_t HardLimit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_max == RLIM_INFINITY ? kUnlimited : limit.rlim_max;
}

void ReadMemory(const std::string& root, SystemView* view) {
  const std::string meminfo = ReadSmallFile(root + "/proc/meminfo");
  view->memory_available = Amount(Field(meminfo, "MemAvailable"));
  view->huge_pages_free = Amount(Field(meminfo, "HugePages_Free"));
  view->huge_page_size = Amount(Field(meminfo, "Hugepagesize"));
  const std::uint64_t group_max = ReadNumber(root + "/sys/fs/cgroup/memory.max");
  const std::uint64_t group_used = ReadNumber(root + "/sys/fs/cgroup/memory.current");
  if (group_max != 0) {
    const std::uint64_t left = group_max - std::min(group_max, group_used);
    view->memory_available = std::min(view->memory_available, left);
  }
  view->counts_reservations = ReadNumber(root + "/proc/sys/vm/overcommit_memory") == 2;
  const std::uint64_t limit = Amount(Field(meminfo, "CommitLimit"));
  view->reservations_left = limit - std::min(limit, Amount(Field(meminfo, "Committed_AS")));
  view->address_space_max = HardLimit(RLIMIT_AS);
  view->memlock_max = HardLimit(RLIMIT_MEMLOCK);
  std::uint64_t capabilities = 0;
  const std::string status = ReadSmallFile(root + "/proc/self/status");
  if (absl::SimpleHexAtoi(Field(status, "CapEff"), &capabilities))
    view->locks_freely = ((capabilities >> kCapIpcLock) & 1) != 0;
  const std::string huge = root + "/sys/kernel/mm/transparent_hugepage/";
  view->huge_pages = ChosenWord(ReadLine(huge + "enabled"));
  view->huge_pages_shared = ChosenWord(ReadLine(huge + "shmem_enabled"));
  const int memory = memfd_create("ring-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) view->memfd_error = std::strerror(errno);
  if (memory >= 0) close(memory);
}

// As the tcp link opens it.
std::string TryUring() {
  const int events = epoll_create1(EPOLL_CLOEXEC);
  const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::string error;
  if (events < 0 || bell < 0) {
    error = std::strerror(errno);
  } else {
    const auto receiver = rdma::soft::UringReceiver::Open(events, bell);
    if (!receiver.ok()) error = std::string(receiver.status().message());
  }
  if (events >= 0) close(events);
  if (bell >= 0) close(bell);
  return error;
}

}  // namespace

SystemView ReadSystem(const std::string& root) {
  SystemView view;
  view.rdma = ReadRdma(root);
  if (root.empty()) ReadLimits(&view.rdma.devices);
  ReadMemory(root, &view);
  const std::string clock = root + "/sys/devices/system/clocksource/clocksource0/";
  view.clock_source = ReadLine(clock + "current_clocksource");
  view.clock_sources = ReadLine(clock + "available_clocksource");
  view.processors = ProcessorCount();
  view.descriptors_max = HardLimit(RLIMIT_NOFILE);
  view.uring_error = TryUring();
  view.uring_disabled = ReadNumber(root + "/proc/sys/kernel/io_uring_disabled");
  return view;
}

}  // namespace ring::tools
