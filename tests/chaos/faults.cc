#include "tests/chaos/faults.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/status.h"

namespace ring::chaos {
namespace {

constexpr absl::Duration kProtectedMax = absl::Seconds(60);
constexpr absl::Duration kReadyMax = absl::Seconds(60);
constexpr std::array<absl::string_view, 7> kFaults = {"kill",   "restart",   "forget", "pause",
                                                      "zombie", "partition", "double"};

}  // namespace

FaultInjector::FaultInjector(const ChaosOptions& options, NodeProcesses* nodes,
                             const ViewWatch* watch)
    : options_(options),
      nodes_(nodes),
      watch_(watch),
      random_(options.seed ^ 0xfa17),
      detect_(absl::Milliseconds(nodes->config().control.detect_ms)) {}

bool FaultInjector::Knows(absl::string_view fault) {
  return std::find(kFaults.begin(), kFaults.end(), fault) != kFaults.end();
}

void FaultInjector::Say(absl::string_view fault, absl::string_view what) {
  std::fprintf(stderr, "%s %s: %s\n",
               absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()).c_str(),
               std::string(fault).c_str(), std::string(what).c_str());
}

absl::Duration FaultInjector::Between(absl::Duration low, absl::Duration high) {
  const auto range = static_cast<std::uint64_t>(absl::ToInt64Microseconds(high - low));
  return low + absl::Microseconds(static_cast<std::int64_t>(random_.Below(range + 1)));
}

std::size_t FaultInjector::Victim() { return random_.Below(nodes_->count()); }

absl::Status FaultInjector::Run(absl::Time until) {
  const auto enough = [this] {
    int all = 0;
    for (const auto& [fault, count] : counts_) all += count;
    return all >= options_.fault_max || options_.faults.empty();
  };
  while (absl::Now() < until) {
    if (enough()) {
      absl::SleepFor(std::min(until - absl::Now(), absl::Milliseconds(100)));
      continue;
    }
    RING_RETURN_IF_ERROR(watch_->WaitProtected(kProtectedMax));
    absl::SleepFor(Between(absl::Milliseconds(300), absl::Seconds(2)));
    if (const std::string dead = nodes_->FindDead(); !dead.empty())
      return absl::UnavailableError(dead);
    const std::string fault = options_.faults[random_.Below(options_.faults.size())];
    ++counts_[fault];
    RING_RETURN_IF_ERROR(Inject(fault));
  }
  return absl::OkStatus();
}

absl::Status FaultInjector::Inject(absl::string_view fault) {
  const std::size_t victim = Victim();
  if (fault == "pause") {
    Pause(victim, Between(absl::Milliseconds(5), detect_ * 0.6));
    return absl::OkStatus();
  }
  if (fault == "zombie") {
    Pause(victim, Between(detect_ * 2, detect_ * 4 + absl::Seconds(1)));
    return absl::OkStatus();
  }
  if (fault == "partition") return Partition(victim, Between(detect_ * 2, detect_ * 6));
  if (fault == "double") {
    // Half of the time who leads the consensus is one of them.
    const NodeId leader = watch_->Leader();
    const bool lead = random_.Below(2) == 0 && leader != cluster::kNoNode;
    const std::size_t first = lead ? leader.value() : victim;
    const std::size_t other = (first + 1 + random_.Below(nodes_->count() - 1)) % nodes_->count();
    return Kill({first, other}, Between(detect_, detect_ * 4), /*forget=*/false);
  }
  const absl::Duration down =
      fault == "restart" ? absl::ZeroDuration() : Between(detect_, detect_ * 6);
  return Kill({victim}, down, fault == "forget");
}

absl::Status FaultInjector::Kill(std::vector<std::size_t> victims, absl::Duration down,
                                 bool forget) {
  for (const std::size_t victim : victims) {
    Say("kill", nodes_->name(victim));
    nodes_->Kill(victim);
    if (forget) nodes_->ForgetVotes(victim);
  }
  absl::SleepFor(down);
  for (const std::size_t victim : victims) {
    Say("start", nodes_->name(victim));
    RING_RETURN_IF_ERROR(nodes_->Start(victim));
  }
  for (const std::size_t victim : victims)
    RING_RETURN_IF_ERROR(nodes_->WaitReady(victim, kReadyMax));
  return absl::OkStatus();
}

void FaultInjector::Pause(std::size_t victim, absl::Duration time) {
  Say("stop", absl::StrCat(nodes_->name(victim), " for ", absl::FormatDuration(time)));
  nodes_->Pause(victim);
  absl::SleepFor(time);
  nodes_->Resume(victim);
  // Who was replaced registers again: only then the view says what became of it.
  if (time > detect_) absl::SleepFor(detect_);
}

// In one network namespace the other's address leads nowhere.
absl::Status FaultInjector::Route(absl::string_view verb, std::size_t from, std::size_t to) {
  const std::string address = nodes_->config().nodes[to].data;
  RING_ASSIGN_OR_RETURN(
      const std::unique_ptr<tools::ChildProcess> ip,
      tools::ChildProcess::Start({"ip", "-n", options_.namespaces[from], "route", std::string(verb),
                                  "blackhole", address.substr(0, address.rfind(':'))}));
  (void)ip->ReadLine("\n", absl::Seconds(5));  // prints nothing: its end is waited for
  return absl::OkStatus();
}

absl::Status FaultInjector::Partition(std::size_t victim, absl::Duration time) {
  const std::uint64_t way = random_.Below(3);
  constexpr std::array<absl::string_view, 3> kWays = {"both ways", "what it says", "what it hears"};
  Say("partition",
      absl::StrCat(nodes_->name(victim), " ", kWays[way], " for ", absl::FormatDuration(time)));
  for (std::size_t other = 0; other < nodes_->count(); ++other) {
    if (other == victim) continue;
    if (way != 2) cut_.emplace_back(victim, other);
    if (way != 1) cut_.emplace_back(other, victim);
  }
  for (const auto& [from, to] : cut_) RING_RETURN_IF_ERROR(Route("add", from, to));
  absl::SleepFor(time);
  return Heal();
}

absl::Status FaultInjector::Heal() {
  for (const auto& [from, to] : std::exchange(cut_, {}))
    RING_RETURN_IF_ERROR(Route("del", from, to));
  std::vector<std::size_t> started;
  for (std::size_t i = 0; i < nodes_->count(); ++i) {
    if (nodes_->paused(i)) nodes_->Resume(i);
    if (nodes_->up(i)) continue;
    RING_RETURN_IF_ERROR(nodes_->Start(i));
    started.push_back(i);
  }
  for (const std::size_t i : started) RING_RETURN_IF_ERROR(nodes_->WaitReady(i, kReadyMax));
  return absl::OkStatus();
}

}  // namespace ring::chaos
