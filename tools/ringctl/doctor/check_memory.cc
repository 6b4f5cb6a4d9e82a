// Locked, huge, free, reserved and shared memory.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/common/format.h"
#include "tools/ringctl/doctor/checks.h"

namespace ring::tools {
namespace {

constexpr char kMemlockForEver[] =
    "ulimit -l unlimited (for good: echo '* - memlock unlimited' | sudo tee "
    "/etc/security/limits.d/ring.conf; of a systemd unit: LimitMEMLOCK=infinity)";

std::string Size(std::uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : FormatBytes(static_cast<double>(bytes));
}

// A device pins what it may reach: all memory that was registered.
void CheckMemlock(const SystemView& view, const Needs& needs, Report* report) {
  const bool needed =
      needs.rdma == Need::kMust || (needs.rdma == Need::kMay && !view.rdma.devices.empty());
  const std::string found = view.locks_freely ? "CAP_IPC_LOCK: no limit" : Size(view.memlock_max);
  const std::uint64_t wanted = needs.arena_size == 0 ? kUnlimited : needs.arena_size;
  if (!needed || view.locks_freely || view.memlock_max >= wanted) {
    return report->Ok("memlock", absl::StrCat(found, needed ? "" : "; not needed"));
  }
  report->Add(
      Missing(needs.rdma), "memlock",
      absl::StrCat(found, ", and a device pins up to arena_size_max=", Size(needs.arena_size)),
      kMemlockForEver);
}

void CheckHugePages(const SystemView& view, const Needs& needs, Report* report) {
  const auto judge = [report](const char* check, const std::string& mode, bool wanted,
                              const char* file) {
    const bool none = mode == "never" || mode == "deny";
    report->Add(none && wanted ? Level::kWarn : Level::kOk, check,
                mode.empty() ? "this kernel has none" : mode,
                absl::StrCat("echo ", absl::string_view(file) == "enabled" ? "madvise" : "advise",
                             " | sudo tee /sys/kernel/mm/transparent_hugepage/", file));
  };
  judge("huge pages", view.huge_pages, true, "enabled");
  judge("huge pages, shared", view.huge_pages_shared, needs.shm != Need::kNo, "shmem_enabled");
  const std::uint64_t idle = view.huge_pages_free * view.huge_page_size;
  report->Add(idle == 0 ? Level::kOk : Level::kWarn, "huge pages, reserved",
              idle == 0 ? "none free; Ring takes transparent ones"
                        : absl::StrCat(Size(idle), " free, which Ring cannot use"),
              "sudo sysctl vm.nr_hugepages=0 (unless another program wants them)");
}

void CheckFree(const SystemView& view, const Needs& needs, Report* report) {
  const auto here = static_cast<std::uint64_t>(std::max(1, needs.nodes_here));
  const std::uint64_t available = view.memory_available;
  if (needs.arena_size == 0) return report->Ok("memory", absl::StrCat(Size(available), " free"));
  const bool starts = available / here >= needs.fixed_size;
  const bool fits = available / here >= needs.arena_size;
  const std::uint64_t share_mib = std::max<std::uint64_t>(16, (available / here) >> 20);
  report->Add(
      !starts ? Level::kFail
      : fits  ? Level::kOk
              : Level::kWarn,
      "memory",
      absl::StrCat(
          Size(available), " free; ", here, " node", here == 1 ? "" : "s",
          " here with arena_size_max=", Size(needs.arena_size),
          starts ? "" : absl::StrCat(", of which ", Size(needs.fixed_size), " from the start")),
      starts ? absl::StrCat("set arena_size_max = \"", share_mib, "MiB\" in [node]")
             : "set ring_size = \"256KiB\" in [node] of all nodes, or free memory");
}

// The arena is address space that is reserved at the start.
void CheckReservation(const SystemView& view, const Needs& needs, Report* report) {
  const bool counted = view.counts_reservations && view.reservations_left < needs.arena_size;
  report->Add(counted ? Level::kFail : Level::kOk, "overcommit",
              !view.counts_reservations
                  ? "reservations are free"
                  : absl::StrCat("vm.overcommit_memory=2 leaves ", Size(view.reservations_left)),
              "sudo sysctl vm.overcommit_memory=0");
  if (view.address_space_max == kUnlimited) return;
  const bool narrow = view.address_space_max < 2 * std::max<std::uint64_t>(needs.arena_size, 1);
  report->Add(narrow ? Level::kFail : Level::kOk, "address space",
              absl::StrCat(Size(view.address_space_max), " for a process"), "ulimit -v unlimited");
}

void CheckMemfd(const SystemView& view, const Needs& needs, Report* report) {
  const bool works = view.memfd_error.empty();
  report->Add(works ? Level::kOk : Missing(needs.shm), "memfd",
              works                    ? "works (what /dev/shm holds does not matter)"
              : needs.shm == Need::kNo ? absl::StrCat(view.memfd_error, "; not needed")
                                       : view.memfd_error,
              "allow memfd_create in the sandbox or container that this runs in");
}

}  // namespace

void CheckMemory(const SystemView& view, const Needs& needs, Report* report) {
  CheckMemlock(view, needs, report);
  CheckHugePages(view, needs, report);
  CheckFree(view, needs, report);
  CheckReservation(view, needs, report);
  CheckMemfd(view, needs, report);
}

}  // namespace ring::tools
