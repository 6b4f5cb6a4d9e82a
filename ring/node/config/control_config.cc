#include "ring/node/config/control_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ring/base/clock.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kSleepNsMax = 20 * kMillisecondNs;
}  // namespace

void ControlConfig::SetDetection(std::uint32_t ms) {
  const ControlConfig defaults;
  const auto of = [&](std::uint64_t part) {
    return static_cast<std::uint32_t>(ms * part / defaults.detect_ms);
  };
  detect_ms = ms;
  heartbeat_ms = std::clamp(of(defaults.heartbeat_ms), std::uint32_t{1}, kHeartbeatMsMax);
  lease_ms = std::max(of(defaults.lease_ms), kDetectMsMin);
}

std::uint64_t ControlConfig::SleepNsMax() const {
  if (!fail_over) return kSleepNsMax;
  return std::min({kSleepNsMax, detect_ms * kMillisecondNs / 8, lease_ms * kMillisecondNs / 8,
                   heartbeat_ms * kMillisecondNs / 2});
}

std::uint32_t ControlConfig::FenceTerms() const {
  if (!fail_over) return 0;
  return fence == FenceKind::kCheck ? kFenceByCheck : lease_ms;
}

std::string FenceTermsName(std::uint32_t terms) {
  if (terms == 0) return "fail_over=off";
  if (terms == kFenceByCheck) return "fence=check";
  return absl::StrCat("leases of lease_ms=", terms);
}

std::uint64_t ControlConfig::TickNs() const {
  return std::max<std::uint64_t>(1, heartbeat_ms / 5) * kMillisecondNs;
}

std::uint64_t ControlConfig::HeartbeatTicks() const {
  return std::max<std::uint64_t>(1, heartbeat_ms * kMillisecondNs / TickNs());
}

std::uint64_t ControlConfig::DetectTicks() const {
  return (detect_ms * kMillisecondNs + TickNs() - 1) / TickNs();
}

// A follower that has missed one heartbeat does not stand for election yet.
std::uint64_t ControlConfig::ElectionTicks() const {
  return std::max(DetectTicks(), 2 * HeartbeatTicks() + 1);
}

ControlProblem CheckControl(const ControlConfig& config, std::size_t node_count) {
  const int voters = config.VoterCount(node_count);
  if (voters % 2 == 0) {
    return {"voters", absl::StrCat("voters=", voters,
                                   " must be odd: an even one more survives no loss more")};
  }
  if (static_cast<std::size_t>(voters) > node_count) {
    return {"voters", absl::StrCat("voters=", voters, " is more than node_count=", node_count)};
  }
  if (config.detect_ms < 2 * config.heartbeat_ms) {
    return {"detect_ms", absl::StrCat("detect_ms=", config.detect_ms,
                                      " must be at least twice heartbeat_ms=", config.heartbeat_ms,
                                      ": one late heartbeat is no failure")};
  }
  return {};
}

}  // namespace ring::node
