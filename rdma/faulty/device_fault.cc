#include "rdma/faulty/device_fault.h"

#include "absl/strings/str_cat.h"

namespace ring::rdma {
namespace {

absl::Status OutOfBounds(absl::string_view field, std::uint32_t value, std::uint32_t least,
                         std::uint32_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, "=", value, " must be from ", least, " to ", most));
}

}  // namespace

absl::string_view DeviceFaultName(DeviceFaultKind kind) {
  switch (kind) {
    case DeviceFaultKind::kFail:
      return "fail";
    case DeviceFaultKind::kTear:
      return "tear";
    case DeviceFaultKind::kFlip:
      return "flip";
    case DeviceFaultKind::kLate:
      return "late";
    case DeviceFaultKind::kNoMemory:
      return "no-memory";
    case DeviceFaultKind::kNoQueuePair:
      return "no-qp";
  }
  return "unknown";
}

absl::string_view FaultStatusName(WcStatus status) {
  for (const NamedFaultStatus& one : kFaultStatuses) {
    if (one.status == status) return one.name;
  }
  return "";
}

std::optional<WcStatus> FaultStatusFromName(absl::string_view name) {
  for (const NamedFaultStatus& one : kFaultStatuses) {
    if (one.name == name) return one.status;
  }
  return std::nullopt;
}

absl::Status CheckDeviceFault(const DeviceFault& fault) {
  if (fault.kind < DeviceFaultKind::kFail || fault.kind > DeviceFaultKind::kNoQueuePair) {
    return absl::InvalidArgumentError(
        absl::StrCat("device fault kind=", static_cast<int>(fault.kind), " is not known"));
  }
  if (fault.count == 0 && fault.duration_ms == 0) {
    return absl::InvalidArgumentError(
        "count and duration_ms are both 0: a fault needs a bound, give one of them");
  }
  if (fault.count > kDeviceFaultCountMax)
    return OutOfBounds("count", fault.count, 0, kDeviceFaultCountMax);
  if (fault.duration_ms > kDeviceFaultMsMax)
    return OutOfBounds("duration_ms", fault.duration_ms, 0, kDeviceFaultMsMax);
  if (fault.one_in == 0 || fault.one_in > kDeviceFaultCountMax)
    return OutOfBounds("one_in", fault.one_in, 1, kDeviceFaultCountMax);
  const bool late = fault.kind == DeviceFaultKind::kLate;
  const std::uint32_t delay_max = late ? kDeviceFaultDelayUsMax : 0;
  if (fault.delay_us > delay_max || (late && fault.delay_us == 0))
    return OutOfBounds("delay_us", fault.delay_us, late ? 1 : 0, delay_max);
  if (FaultStatusName(fault.status).empty()) {
    return absl::InvalidArgumentError(absl::StrCat("status=", static_cast<int>(fault.status),
                                                   " is nothing that a request fails with"));
  }
  return absl::OkStatus();
}

}  // namespace ring::rdma
