// ring/node/events/fault_service.h — does to this node what an operator asked for, if that is
// allowed.
//
// What:      FaultService answers kFault: refused unless the configuration has fault_injection;
//            else the fault happens right behind the answer, and the end of the device's faults
//            before it. kDeviceFaults tells what became of those.
// Ownership: borrows the node, which owns it.
// Threads:   one, the node's. A pause stops it, for at most kFaultMsMax.
// Errors:    kFailedPrecondition (not allowed here), and DecodeFault's.
// Source:    fault classes F1 to F15.
#ifndef RING_NODE_EVENTS_FAULT_SERVICE_H_
#define RING_NODE_EVENTS_FAULT_SERVICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/node/events/fault.h"

namespace ring::node {

class Node;

class FaultService {
 public:
  explicit FaultService(Node* node);
  // Wants Progress each turn.
  bool busy() const { return due_.has_value(); }
  void Progress(std::uint64_t now_ns);

 private:
  absl::Status CheckAllowed() const;
  absl::StatusOr<std::string> Take(absl::string_view body);
  absl::StatusOr<std::string> Tell() const;
  void Happen(const Fault& fault);

  Node* node_;
  std::optional<Fault> due_;
  std::uint64_t due_ns_ = 0;  // the answer is on its way until then
};

}  // namespace ring::node

#endif  // RING_NODE_EVENTS_FAULT_SERVICE_H_
