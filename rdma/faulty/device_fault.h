// rdma/faulty/device_fault.h — what may go wrong in a device on purpose, how often and how long.
//
// What:      DeviceFault, CheckDeviceFault; DeviceFaultStatus, what became of one; and the names
//            by which people say them.
// Shape:     fail        a request fails with `status`: its queue pair goes to kError, and what is
//                        behind it is flushed
//            tear        of a WRITE only some of its words of 8 bytes land, from its start; then
//                        as fail. Only of WRITEs longer than a word, which is seen whole
//            flip        one bit of a WRITE's bytes is another one. Only of WRITEs longer than a
//                        cache line: shorter ones are words, which no CRC covers
//            late        a completion comes delay_us later, and behind it what follows it on its
//                        queue pair
//            no-memory   Allocate and Register are refused
//            no-qp       Connect, Accept and CreateCompletionQueue are refused
//            One fault of each kind at a time; a further one takes its place.
// Units:     milliseconds, microseconds, events.
// Ownership: values.
// Threads:   pure.
// Errors:    CheckDeviceFault: kInvalidArgument naming the field and its bounds.
// Source:    fault classes F7, F8, F10, F11.
#ifndef RING_RDMA_FAULTY_DEVICE_FAULT_H_
#define RING_RDMA_FAULTY_DEVICE_FAULT_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rdma/fabric.h"

namespace ring::rdma {

// Travels: never renumber.
enum class DeviceFaultKind : std::uint8_t {
  kFail = 1,
  kTear = 2,
  kFlip = 3,
  kLate = 4,
  kNoMemory = 5,
  kNoQueuePair = 6,
};
inline constexpr std::array kDeviceFaultKinds = {
    DeviceFaultKind::kFail, DeviceFaultKind::kTear,     DeviceFaultKind::kFlip,
    DeviceFaultKind::kLate, DeviceFaultKind::kNoMemory, DeviceFaultKind::kNoQueuePair};
// "fail", "tear", ...
absl::string_view DeviceFaultName(DeviceFaultKind kind);

inline constexpr std::uint32_t kDeviceFaultCountMax = 1'000'000;
inline constexpr std::uint32_t kDeviceFaultMsMax = 60'000;
inline constexpr std::uint32_t kDeviceFaultDelayUsMax = 10'000'000;

struct DeviceFault {
  DeviceFaultKind kind = DeviceFaultKind::kFail;
  std::uint32_t count = 0;        // so often at most; 0: no bound, then duration_ms is one
  std::uint32_t duration_ms = 0;  // for so long at most; 0: no bound, then count is one
  std::uint32_t one_in = 1;       // of so many things that it could hit, by chance
  std::uint32_t delay_us = 0;     // late
  WcStatus status = WcStatus::kRetryExceeded;  // fail, tear: what the completion says
  friend bool operator==(const DeviceFault&, const DeviceFault&) = default;
};

absl::Status CheckDeviceFault(const DeviceFault& fault);

// What `fail` and `tear` may say.
struct NamedFaultStatus {
  WcStatus status;
  absl::string_view name;
};
inline constexpr std::array kFaultStatuses = {
    NamedFaultStatus{WcStatus::kRetryExceeded, "retry"},
    NamedFaultStatus{WcStatus::kRnrRetryExceeded, "rnr"},
    NamedFaultStatus{WcStatus::kRemoteAccess, "remote-access"},
    NamedFaultStatus{WcStatus::kRemoteInvalid, "remote-invalid"},
    NamedFaultStatus{WcStatus::kLocalProtection, "local-protection"},
    NamedFaultStatus{WcStatus::kLocalLength, "local-length"}};
// Empty for others.
absl::string_view FaultStatusName(WcStatus status);
std::optional<WcStatus> FaultStatusFromName(absl::string_view name);

struct DeviceFaultStatus {
  DeviceFault fault;           // the last one of its kind
  bool active = false;         // it may still happen
  std::uint32_t left = 0;      // so often, if its count is bounded
  std::uint32_t left_ms = 0;   // so long, if its duration is
  std::uint64_t injected = 0;  // of this kind, since the device was opened
  friend bool operator==(const DeviceFaultStatus&, const DeviceFaultStatus&) = default;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_FAULTY_DEVICE_FAULT_H_
