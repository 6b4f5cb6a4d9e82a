#include "api/admin/convert_fault.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::admin {
namespace {

v1::DeviceFault ToProto(const rdma::DeviceFault& fault) {
  v1::DeviceFault out;
  out.set_kind(static_cast<v1::DeviceFaultKind>(fault.kind));
  out.set_count(fault.count);
  out.set_duration_ms(fault.duration_ms);
  out.set_one_in(fault.one_in);
  out.set_delay_us(fault.delay_us);
  out.set_status(std::string(rdma::FaultStatusName(fault.status)));
  return out;
}

absl::StatusOr<rdma::DeviceFault> FromProto(const v1::DeviceFault& in) {
  rdma::DeviceFault fault;
  const bool known = v1::DeviceFaultKind_IsValid(in.kind());
  fault.kind = static_cast<rdma::DeviceFaultKind>(known ? in.kind() : 0);
  fault.count = in.count();
  fault.duration_ms = in.duration_ms();
  if (in.one_in() != 0) fault.one_in = in.one_in();
  fault.delay_us = in.delay_us();
  if (!in.status().empty()) {
    const std::optional<rdma::WcStatus> status = rdma::FaultStatusFromName(in.status());
    if (!status.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("status=\"", in.status().substr(0, 64), "\" is not known"));
    }
    fault.status = *status;
  }
  RING_RETURN_IF_ERROR(rdma::CheckDeviceFault(fault));
  return fault;
}

}  // namespace

v1::InjectRequest ToProto(absl::string_view node, const node::Fault& fault) {
  v1::InjectRequest request;
  request.set_node(std::string(node));
  request.set_kind(static_cast<v1::FaultKind>(fault.kind));
  if (fault.peer != cluster::kNoNode) request.set_peer(fault.peer.value());
  request.set_duration_ms(fault.duration_ms);
  if (fault.kind == node::FaultKind::kDevice) *request.mutable_device() = ToProto(fault.device);
  return request;
}

absl::StatusOr<node::Fault> FromProto(const v1::InjectRequest& request) {
  node::Fault fault;
  const bool known = v1::FaultKind_IsValid(request.kind());
  fault.kind = static_cast<node::FaultKind>(known ? request.kind() : 0);
  if (request.has_peer()) fault.peer = NodeId(request.peer());
  fault.duration_ms = request.duration_ms();
  if (fault.kind == node::FaultKind::kDevice) {
    RING_ASSIGN_OR_RETURN(fault.device, FromProto(request.device()));
  }
  RING_RETURN_IF_ERROR(node::CheckFault(fault));
  return fault;
}

v1::GetDeviceFaultsResponse ToProto(const node::DeviceFaults& faults) {
  v1::GetDeviceFaultsResponse response;
  for (const rdma::DeviceFaultStatus& fault : faults) {
    v1::DeviceFaultStatus* const out = response.add_faults();
    *out->mutable_fault() = ToProto(fault.fault);
    out->set_active(fault.active);
    out->set_left(fault.left);
    out->set_left_ms(fault.left_ms);
    out->set_injected(fault.injected);
  }
  return response;
}

absl::StatusOr<node::DeviceFaults> FromProto(const v1::GetDeviceFaultsResponse& response) {
  node::DeviceFaults faults;
  for (const v1::DeviceFaultStatus& in : response.faults()) {
    rdma::DeviceFaultStatus status;
    RING_ASSIGN_OR_RETURN(status.fault, FromProto(in.fault()));
    status.active = in.active();
    status.left = in.left();
    status.left_ms = in.left_ms();
    status.injected = in.injected();
    faults.push_back(status);
  }
  return faults;
}

}  // namespace ring::admin
