#include "ring/node/events/fault_service.h"

#include <poll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/clock.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {
// So that who asked hears that it will happen.
constexpr std::uint64_t kAnswerNs = 5'000'000;

std::string DescribeDevice(const Fault& fault) {
  if (fault.kind != FaultKind::kDevice) return "";
  const rdma::DeviceFault& device = fault.device;
  return absl::StrCat(" device=", rdma::DeviceFaultName(device.kind), " count=", device.count,
                      " device_ms=", device.duration_ms, " one_in=", device.one_in);
}
}  // namespace

FaultService::FaultService(Node* node) : node_(node) {
  node->control().Handle(ControlType::kFault, [this](NodeId, absl::string_view body,
                                                     ControlReply reply) { reply(Take(body)); });
  node->control().Handle(ControlType::kDeviceFaults,
                         [this](NodeId, absl::string_view, ControlReply reply) { reply(Tell()); });
}

absl::Status FaultService::CheckAllowed() const {
  if (node_->faulty_device() != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("node ", node_->id().value(),
                   " takes no faults: set fault_injection = \"on\" "
                   "in [node] of its configuration, and restart it"));
}

absl::StatusOr<std::string> FaultService::Tell() const {
  RING_RETURN_IF_ERROR(CheckAllowed());
  return EncodeDeviceFaults(node_->faulty_device()->Status());
}

absl::StatusOr<std::string> FaultService::Take(absl::string_view body) {
  RING_RETURN_IF_ERROR(CheckAllowed());
  RING_ASSIGN_OR_RETURN(const Fault fault, DecodeFault(body));
  if (fault.kind == FaultKind::kClear) {
    const auto is = [this](FaultKind kind) { return due_.has_value() && due_->kind == kind; };
    if (is(FaultKind::kDevice) || is(FaultKind::kCut)) due_.reset();
    node_->faulty_device()->Clear();
    return std::string();
  }
  if (due_.has_value()) return absl::ResourceExhaustedError("another fault is about to happen");
  due_ = fault;
  due_ns_ = node_->control().now_ns() + kAnswerNs;
  return std::string();
}

void FaultService::Progress(std::uint64_t now_ns) {
  if (!due_.has_value() || now_ns < due_ns_) return;
  Happen(*std::exchange(due_, std::nullopt));
}

void FaultService::Happen(const Fault& fault) {
  RING_LOG(WARNING) << "fault injected node=" << node_->id().value()
                    << " kind=" << static_cast<int>(fault.kind)
                    << " duration_ms=" << fault.duration_ms << DescribeDevice(fault);
  const std::uint64_t until_ns = node_->control().now_ns() + fault.duration_ms * kMillisecondNs;
  switch (fault.kind) {
    case FaultKind::kKill:
      return node_->Die();
    case FaultKind::kPause:
      poll(nullptr, 0, static_cast<int>(fault.duration_ms));
      return;
    case FaultKind::kDrop:
      return node_->control().DropUntil(fault.peer, until_ns);
    case FaultKind::kBreak:
      return node_->control().Break(fault.peer);
    case FaultKind::kCut:
      return node_->faulty_device()->Cut(node_->control().AddressOf(fault.peer), fault.duration_ms);
    case FaultKind::kDevice:
      // It was checked when it came.
      return node_->faulty_device()->Inject(fault.device).IgnoreError();
    case FaultKind::kClear:
      return;  // at once, by Take
  }
}

}  // namespace ring::node
