#include "ring/node/polling.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ring/base/processors.h"

namespace ring::node {

absl::StatusOr<ReactorOptions> PollingOf(const NodeConfig& config, const Pollers& pollers) {
  const bool busy = config.poll == PollPolicy::kBusy;
  const int all = pollers.reactors + pollers.neighbours;
  if (busy && !MayPoll(all, pollers.processors)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "poll=\"busy\" takes a processor for each thread that polls: this process has reactors=",
        pollers.reactors, " and this host with the configuration's other nodes on it pollers=", all,
        ", but there are processors=", pollers.processors,
        ": run fewer of them here, or set poll=\"adaptive\""));
  }
  ReactorOptions options;
  const bool polls = config.poll != PollPolicy::kSleep && MayPoll(all, pollers.processors);
  options.poll_ns = polls ? config.poll_us * std::uint64_t{1000} : 0;
  options.sleeps = !busy;
  options.sleep_ns_max = config.control.SleepNsMax();
  return options;
}

}  // namespace ring::node
