#include "tests/chaos/faults.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/status.h"
#include "tools/common/interrupt.h"

namespace ring::chaos {
namespace {

constexpr std::array<absl::string_view, 8> kFaults = {"kill",   "restart",   "forget", "pause",
                                                      "zombie", "partition", "double", "nic"};

// Who has other work, or none, for too long: that is no fault of the cluster.
bool MayBeBusy(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

FaultInjector::FaultInjector(const ChaosOptions& options, tools::NodeProcesses* nodes,
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
  while (absl::Now() < until && !tools::Interrupted()) {
    if (enough()) {
      absl::SleepFor(std::min(until - absl::Now(), absl::Milliseconds(100)));
      continue;
    }
    RING_RETURN_IF_ERROR(watch_->WaitProtected(kProtectedMax * options_.time_factor));
    absl::SleepFor(Between(absl::Milliseconds(300), absl::Seconds(2)));
    if (const std::string dead = nodes_->FindDead(); !dead.empty())
      return absl::UnavailableError(dead);
    const std::string fault = Draw();
    RING_ASSIGN_OR_RETURN(const bool happened, Inject(fault));
    if (happened) ++counts_[fault];
  }
  return absl::OkStatus();
}

// Each class comes once before any comes again.
std::string FaultInjector::Draw() {
  if (deck_.empty()) deck_ = options_.faults;
  const auto drawn = deck_.begin() + static_cast<std::ptrdiff_t>(random_.Below(deck_.size()));
  std::string fault = std::move(*drawn);
  deck_.erase(drawn);
  return fault;
}

absl::StatusOr<bool> FaultInjector::Inject(absl::string_view fault) {
  const std::size_t victim = Victim();
  if (fault == "nic") return DisturbNic(victim);
  if (fault == "partition") {
    const absl::Duration time = Between(detect_ * 2, detect_ * 6);
    if (options_.namespaces.empty()) return Cut(victim, time);
    RING_RETURN_IF_ERROR(Partition(victim, time));
  } else if (fault == "pause") {
    Pause(victim, Between(absl::Milliseconds(5), detect_ * 0.6));
  } else if (fault == "zombie") {
    Pause(victim, Between(detect_ * 2, detect_ * 4 + absl::Seconds(1)));
  } else if (fault == "double") {
    RING_RETURN_IF_ERROR(Kill(Pair(victim), Between(detect_, detect_ * 4), /*forget=*/false));
  } else {
    const absl::Duration down =
        fault == "restart" ? absl::ZeroDuration() : Between(detect_, detect_ * 6);
    RING_RETURN_IF_ERROR(Kill({victim}, down, fault == "forget"));
  }
  return true;
}

std::vector<std::size_t> FaultInjector::Pair(std::size_t victim) {
  const std::size_t any = (victim + 1 + random_.Below(nodes_->count() - 1)) % nodes_->count();
  const NodeId leader = watch_->Leader();
  if (random_.Below(2) == 0 || leader == cluster::kNoNode) return {victim, any};
  std::vector<std::size_t> coordinators;
  const std::shared_ptr<const cluster::View> view = watch_->view();
  for (const cluster::GroupView& group : view->groups) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(view->s); ++i) {
      const NodeId holder = group.roles[i];
      if (holder != leader && holder != cluster::kNoNode) coordinators.push_back(holder.value());
    }
  }
  if (coordinators.empty()) return {victim, any};
  const std::size_t other = coordinators[random_.Below(coordinators.size())];
  Say("double",
      absl::StrCat(nodes_->name(leader.value()), " leads, ", nodes_->name(other), " coordinates"));
  return {leader.value(), other};
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
    RING_RETURN_IF_ERROR(nodes_->WaitReady(victim, kReadyMax * options_.time_factor));
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

// No more than one copy is damaged at a time: the next fault comes when that is mended.
rdma::DeviceFault FaultInjector::DrawNicFault() {
  rdma::DeviceFault fault;
  fault.kind = rdma::kDeviceFaultKinds[random_.Below(rdma::kDeviceFaultKinds.size())];
  fault.one_in = 1 + static_cast<std::uint32_t>(random_.Below(100));
  fault.count = 1;
  switch (fault.kind) {
    case rdma::DeviceFaultKind::kFail:
    case rdma::DeviceFaultKind::kTear:
      fault.count += static_cast<std::uint32_t>(random_.Below(5));
      if (random_.Below(2) == 0) fault.status = rdma::WcStatus::kRnrRetryExceeded;
      break;
    case rdma::DeviceFaultKind::kFlip:
      break;
    case rdma::DeviceFaultKind::kLate:
      fault.count = 0;
      fault.delay_us = static_cast<std::uint32_t>(
          absl::ToInt64Microseconds(Between(absl::Microseconds(100), detect_ / 4)));
      break;
    case rdma::DeviceFaultKind::kNoMemory:
    case rdma::DeviceFaultKind::kNoQueuePair:
      fault.count = 0;
      fault.one_in = 1;
      break;
  }
  fault.duration_ms = static_cast<std::uint32_t>(
      absl::ToInt64Milliseconds(Between(absl::Milliseconds(500), absl::Seconds(3))));
  return fault;
}

// What is refused shows only where something is made: so connections fail beside it.
absl::StatusOr<bool> FaultInjector::DisturbNic(std::size_t victim) {
  RING_ASSIGN_OR_RETURN(admin::AdminClient* const admin, Admin(victim));
  node::Fault fault;
  fault.kind = node::FaultKind::kDevice;
  fault.device = DrawNicFault();
  const std::string name = nodes_->name(victim);
  Say("nic", absl::StrCat(name, " ", std::string(rdma::DeviceFaultName(fault.device.kind)),
                          " count=", fault.device.count, " ms=", fault.device.duration_ms,
                          " one_in=", fault.device.one_in, " delay_us=", fault.device.delay_us));
  if (const absl::Status injected = admin->InjectFault(name, fault); !injected.ok()) {
    if (!MayBeBusy(injected)) return injected;
    Say("nic", injected.message());
    return false;
  }
  const absl::Time end = absl::Now() + absl::Milliseconds(fault.device.duration_ms);
  const bool refuses = fault.device.kind == rdma::DeviceFaultKind::kNoMemory ||
                       fault.device.kind == rdma::DeviceFaultKind::kNoQueuePair;
  if (refuses) {
    absl::SleepFor(absl::Milliseconds(20));  // that one is in the device by then
    node::Fault fail = fault;
    fail.device.kind = rdma::DeviceFaultKind::kFail;
    fail.device.count = 3;
    fail.device.one_in = 50;
    // Its answer may be what fails.
    admin->InjectFault(name, fail).IgnoreError();
  }
  absl::SleepFor(end - absl::Now());
  fault.kind = node::FaultKind::kClear;
  // The fault ends by itself, too.
  admin->InjectFault(name, fault).IgnoreError();
  const absl::StatusOr<node::DeviceFaults> faults = admin->GetDeviceFaults(name);
  if (!faults.ok()) return true;
  for (const rdma::DeviceFaultStatus& status : *faults) {
    Say("nic", absl::StrCat(name, " ", std::string(rdma::DeviceFaultName(status.fault.kind)),
                            " happened ", status.injected, " times so far"));
  }
  return true;
}

// Each node is asked by itself: who is cut off is reached by nobody else.
absl::StatusOr<admin::AdminClient*> FaultInjector::Admin(std::size_t node) {
  admins_.resize(nodes_->count());
  if (admins_[node] == nullptr) {
    admin::AdminClientOptions options;
    options.addresses = {nodes_->config().nodes[node].admin};
    options.attempt_deadline = absl::Seconds(3) * options_.time_factor;
    RING_ASSIGN_OR_RETURN(admins_[node], admin::AdminClient::Create(options));
  }
  return admins_[node].get();
}

// A node takes one fault at a time, and does it a little after its answer.
absl::Status FaultInjector::AskToCut(std::size_t from, std::size_t to, absl::Duration time) {
  RING_ASSIGN_OR_RETURN(admin::AdminClient* const admin, Admin(from));
  node::Fault fault;
  fault.kind = node::FaultKind::kCut;
  fault.peer = NodeId(static_cast<std::uint32_t>(to));
  fault.duration_ms = static_cast<std::uint32_t>(absl::ToInt64Milliseconds(time));
  for (;;) {
    const absl::Status asked = admin->InjectFault(nodes_->name(from), fault);
    if (!absl::IsResourceExhausted(asked)) return asked;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// The cuts end by themselves.
absl::StatusOr<bool> FaultInjector::Cut(std::size_t victim, absl::Duration time) {
  Say("partition", absl::StrCat(nodes_->name(victim), " both ways, by its links, for ",
                                absl::FormatDuration(time)));
  bool any = false;
  for (std::size_t other = 0; other < nodes_->count(); ++other) {
    if (other == victim) continue;
    for (const auto& [from, to] : {std::pair(victim, other), std::pair(other, victim)}) {
      const absl::Status asked = AskToCut(from, to, time);
      any |= asked.ok();
      if (asked.ok()) continue;
      if (!MayBeBusy(asked)) return asked;
      Say("partition", asked.message());
    }
  }
  absl::SleepFor(time);
  return any;
}

// In one network namespace the other's address leads nowhere.
absl::Status FaultInjector::Route(absl::string_view verb, std::size_t from, std::size_t to) {
  const std::string address = nodes_->config().nodes[to].data;
  RING_ASSIGN_OR_RETURN(
      const std::unique_ptr<tools::ChildProcess> ip,
      tools::ChildProcess::Start({"ip", "-n", options_.namespaces[from], "route", std::string(verb),
                                  "blackhole", address.substr(0, address.rfind(':'))}));
  RING_ASSIGN_OR_RETURN(const int status, ip->AwaitEnd(absl::Seconds(10) * options_.time_factor));
  if (status == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("ip -n ", options_.namespaces[from], " route ", verb,
                                          " blackhole of ", address, " ended with status ",
                                          status));
}

absl::Status FaultInjector::Partition(std::size_t victim, absl::Duration time) {
  const std::uint64_t way = random_.Below(3);
  constexpr std::array<absl::string_view, 3> kWays = {"both ways", "what it says", "what it hears"};
  Say("partition",
      absl::StrCat(nodes_->name(victim), " ", kWays[way], " for ", absl::FormatDuration(time)));
  std::vector<std::pair<std::size_t, std::size_t>> cuts;
  for (std::size_t other = 0; other < nodes_->count(); ++other) {
    if (other == victim) continue;
    if (way != 2) cuts.emplace_back(victim, other);
    if (way != 1) cuts.emplace_back(other, victim);
  }
  for (const auto& [from, to] : cuts) {
    RING_RETURN_IF_ERROR(Route("add", from, to));
    cut_.emplace_back(from, to);
  }
  absl::SleepFor(time);
  return Heal();
}

absl::Status FaultInjector::Heal() {
  absl::Status healed;
  for (const auto& [from, to] : std::exchange(cut_, {})) healed.Update(Route("del", from, to));
  std::vector<std::size_t> started;
  for (std::size_t i = 0; i < nodes_->count(); ++i) {
    if (nodes_->paused(i)) nodes_->Resume(i);
    if (nodes_->up(i)) continue;
    RING_RETURN_IF_ERROR(nodes_->Start(i));
    started.push_back(i);
  }
  for (const std::size_t i : started)
    RING_RETURN_IF_ERROR(nodes_->WaitReady(i, kReadyMax * options_.time_factor));
  return healed;
}

}  // namespace ring::chaos
