// File descriptors and io_uring.
#include "absl/strings/str_cat.h"
#include "tools/ringctl/doctor/checks.h"

namespace ring::tools {
namespace {

constexpr std::uint64_t kDescriptorsMin = 1024;  // of a node without clients to speak of

void CheckLimit(const SystemView& view, const Needs& needs, Report* report) {
  const std::uint64_t wanted = std::max(needs.descriptors, kDescriptorsMin);
  const std::uint64_t limit = view.descriptors_max;
  const std::string shown = limit == kUnlimited ? "unlimited" : absl::StrCat(limit);
  const Level level = limit >= wanted                ? Level::kOk
                      : limit >= kDescriptorsMin / 4 ? Level::kWarn
                                                     : Level::kFail;
  report->Add(level, "file descriptors",
              level == Level::kOk
                  ? absl::StrCat(shown, " (the hard limit, which ringd takes)")
                  : absl::StrCat(shown, ", and clients and peers take up to ", wanted),
              absl::StrCat("ulimit -Hn ", wanted, " (as root; for good: echo '* - nofile ", wanted,
                           "' | sudo tee /etc/security/limits.d/ring-files.conf; of a systemd "
                           "unit: LimitNOFILE=",
                           wanted, ")"));
}

void CheckUring(const SystemView& view, const Needs& needs, Report* report) {
  const bool works = view.uring_error.empty();
  // Without it the link works, a socket at a time: never a failure.
  const bool wanted = needs.tcp != Need::kNo;
  report->Add(works || !wanted ? Level::kOk : Level::kWarn, "io_uring",
              works    ? "works"
              : wanted ? absl::StrCat(view.uring_error, ": tcp receives a socket at a time")
                       : absl::StrCat(view.uring_error, "; not needed"),
              view.uring_disabled != 0
                  ? "sudo sysctl kernel.io_uring_disabled=0"
                  : "run a kernel from Linux 6.1 on, and allow io_uring_setup in the sandbox or "
                    "container that this runs in");
}

}  // namespace

void CheckDescriptors(const SystemView& view, const Needs& needs, Report* report) {
  CheckLimit(view, needs, report);
  CheckUring(view, needs, report);
}

Report Examine(const SystemView& view, const Needs& needs) {
  Report report;
  CheckRdma(view, needs, &report);
  CheckModules(view, needs, &report);
  CheckMemory(view, needs, &report);
  CheckProcessors(view, needs, &report);
  CheckDescriptors(view, needs, &report);
  return report;
}

}  // namespace ring::tools
