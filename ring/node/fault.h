// ring/node/fault.h — a fault that an operator puts into a running node, to see what happens.
//
// What:      Fault, CheckFault, and its bytes on the control connection.
// Shape:     each is bounded in time and undone by itself, but for a kill.
// Units:     milliseconds.
// Ownership: values.
// Threads:   pure.
// Errors:    CheckFault, DecodeFault: kInvalidArgument naming the field.
// Source:    protocol rules section 11 (F1, F5, F6, F8).
#ifndef RING_NODE_FAULT_H_
#define RING_NODE_FAULT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/cluster/view.h"

namespace ring::node {

inline constexpr std::uint32_t kFaultMsMax = 60'000;

// Travels: never renumber.
enum class FaultKind : std::uint8_t {
  kKill = 1,   // ends at once, with its memory
  kPause = 2,  // its reactor stands still, and whatever else runs there
  kDrop = 3,   // control messages between it and the peer are lost, both ways
  kBreak = 4,  // its control connection to the peer ends; it is made again
};

struct Fault {
  FaultKind kind = FaultKind::kKill;
  NodeId peer = cluster::kNoNode;  // drop, break
  std::uint32_t duration_ms = 0;   // pause, drop
  friend bool operator==(const Fault&, const Fault&) = default;
};

absl::Status CheckFault(const Fault& fault);
std::string EncodeFault(const Fault& fault);
absl::StatusOr<Fault> DecodeFault(absl::string_view bytes);

}  // namespace ring::node

#endif  // RING_NODE_FAULT_H_
