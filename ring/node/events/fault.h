// ring/node/events/fault.h — a fault that an operator puts into a running node, to see what
// happens.
//
// What:      Fault, CheckFault, and its bytes on the control connection; DeviceFaults, what became
//            of those of its device, and its bytes.
// Shape:     each is bounded and undone by itself, but for a kill.
// Units:     milliseconds.
// Ownership: values.
// Threads:   pure.
// Errors:    CheckFault: kInvalidArgument naming the field; DecodeFault: that, or that the bytes
//            are no fault.
// Source:    fault classes F1, F5 to F8, F10, F11.
#ifndef RING_NODE_EVENTS_FAULT_H_
#define RING_NODE_EVENTS_FAULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/faulty/device_fault.h"
#include "ring/base/id.h"
#include "ring/cluster/view.h"

namespace ring::node {

inline constexpr std::uint32_t kFaultMsMax = 60'000;

// Travels: never renumber.
enum class FaultKind : std::uint8_t {
  kKill = 1,    // ends at once, with its memory
  kPause = 2,   // its reactor stands still, and whatever else runs there
  kDrop = 3,    // control messages between it and the peer are lost, both ways
  kBreak = 4,   // its control connection to the peer ends; it is made again
  kDevice = 5,  // its network device does wrong
  kClear = 6,   // its network device does so no more
  kCut = 7,     // what it connects to the peer fails; with the same at the peer, a partition
};

struct Fault {
  FaultKind kind = FaultKind::kKill;
  NodeId peer = cluster::kNoNode;  // drop, break, cut
  std::uint32_t duration_ms = 0;   // pause, drop, cut
  rdma::DeviceFault device = {};   // device
  friend bool operator==(const Fault&, const Fault&) = default;
};

// Drop, break, cut.
bool HasPeer(FaultKind kind);
absl::Status CheckFault(const Fault& fault);
std::string EncodeFault(const Fault& fault);
absl::StatusOr<Fault> DecodeFault(absl::string_view bytes);

// One of each kind that was ever asked for.
using DeviceFaults = std::vector<rdma::DeviceFaultStatus>;
std::string EncodeDeviceFaults(const DeviceFaults& faults);
absl::StatusOr<DeviceFaults> DecodeDeviceFaults(absl::string_view bytes);

}  // namespace ring::node

#endif  // RING_NODE_EVENTS_FAULT_H_
