// Clock and processors.
#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ring/base/processors.h"
#include "tools/ringctl/doctor/checks.h"

namespace ring::tools {
namespace {

// Those that a process reads without a system call.
constexpr std::array<absl::string_view, 5> kFastClocks = {
    "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"};

bool IsFast(absl::string_view clock) {
  return std::find(kFastClocks.begin(), kFastClocks.end(), clock) != kFastClocks.end();
}

void CheckClock(const SystemView& view, Report* report) {
  const std::vector<absl::string_view> sources = absl::StrSplit(view.clock_sources, ' ');
  const auto better = std::find_if(sources.begin(), sources.end(), IsFast);
  report->Add(
      IsFast(view.clock_source) ? Level::kOk : Level::kWarn, "clock",
      view.clock_source.empty() ? "unknown"
      : IsFast(view.clock_source)
          ? view.clock_source
          : absl::StrCat(view.clock_source, ": each look at it is a system call, or as slow"),
      better != sources.end()
          ? absl::StrCat("echo ", *better,
                         " | sudo tee "
                         "/sys/devices/system/clocksource/clocksource0/current_clocksource")
          : "boot with tsc=reliable, if dmesg does not say that the TSC is unstable");
}

std::string Fewer(const SystemView& view, const Needs& needs) {
  const int left = view.processors - (needs.nodes_here - 1);
  if (left >= 1 && needs.reactors > left) return absl::StrCat("ringd --reactors ", left);
  return absl::StrCat("start at most ", view.processors,
                      " nodes on this machine, or set poll = \"sleep\" in [node]");
}

}  // namespace

void CheckProcessors(const SystemView& view, const Needs& needs, Report* report) {
  CheckClock(view, report);
  const int pollers = needs.reactors + needs.nodes_here - 1;  // as ringd counts them
  const bool fits = MayPoll(pollers, view.processors);
  const std::string count =
      absl::StrCat("processors=", view.processors, ", reactors=", pollers, " of the nodes here");
  if (fits || needs.poll == node::PollPolicy::kSleep) {
    return report->Ok("processors",
                      absl::StrCat(count, fits ? "" : ", which do not poll (poll=\"sleep\")"));
  }
  const bool busy = needs.poll == node::PollPolicy::kBusy;
  report->Add(busy ? Level::kFail : Level::kWarn, "processors",
              absl::StrCat(count, busy ? ": poll=\"busy\" is refused"
                                       : ": none polls, each request waits for a wake-up"),
              Fewer(view, needs));
}

}  // namespace ring::tools
