#include "ring/node/events/fault.h"

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::node {

bool HasPeer(FaultKind kind) {
  return kind == FaultKind::kDrop || kind == FaultKind::kBreak || kind == FaultKind::kCut;
}

absl::Status CheckFault(const Fault& fault) {
  if (fault.kind < FaultKind::kKill || fault.kind > FaultKind::kCut) {
    return absl::InvalidArgumentError(
        absl::StrCat("fault kind=", static_cast<int>(fault.kind), " is not known"));
  }
  const bool lasts = fault.kind == FaultKind::kPause || fault.kind == FaultKind::kDrop ||
                     fault.kind == FaultKind::kCut;
  if (lasts && (fault.duration_ms == 0 || fault.duration_ms > kFaultMsMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("duration_ms=", fault.duration_ms, " must be from 1 to ", kFaultMsMax));
  }
  if (fault.kind == FaultKind::kDevice) return rdma::CheckDeviceFault(fault.device);
  if (HasPeer(fault.kind) && fault.peer == cluster::kNoNode) {
    return absl::InvalidArgumentError("peer is missing: between which nodes?");
  }
  return absl::OkStatus();
}

namespace {

void PutDeviceFault(const rdma::DeviceFault& fault, ByteWriter* out) {
  out->Put(static_cast<std::uint8_t>(fault.kind));
  for (const std::uint32_t value : {fault.count, fault.duration_ms, fault.one_in, fault.delay_us})
    out->Put(value);
  out->Put(static_cast<std::uint8_t>(fault.status));
}

rdma::DeviceFault GetDeviceFault(ByteReader* in) {
  rdma::DeviceFault fault;
  fault.kind = static_cast<rdma::DeviceFaultKind>(in->Get<std::uint8_t>());
  for (std::uint32_t* const value :
       {&fault.count, &fault.duration_ms, &fault.one_in, &fault.delay_us})
    *value = in->Get<std::uint32_t>();
  fault.status = static_cast<rdma::WcStatus>(in->Get<std::uint8_t>());
  return fault;
}

}  // namespace

std::string EncodeFault(const Fault& fault) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(fault.kind));
  out.Put(fault.peer.value());
  out.Put(fault.duration_ms);
  PutDeviceFault(fault.device, &out);
  return out.Take();
}

absl::StatusOr<Fault> DecodeFault(absl::string_view bytes) {
  ByteReader in(bytes);
  Fault fault;
  fault.kind = static_cast<FaultKind>(in.Get<std::uint8_t>());
  fault.peer = NodeId(in.Get<std::uint32_t>());
  fault.duration_ms = in.Get<std::uint32_t>();
  fault.device = GetDeviceFault(&in);
  if (!in.finished()) return absl::InvalidArgumentError("fault is malformed");
  RING_RETURN_IF_ERROR(CheckFault(fault));
  return fault;
}

std::string EncodeDeviceFaults(const DeviceFaults& faults) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(faults.size()));
  for (const rdma::DeviceFaultStatus& status : faults) {
    PutDeviceFault(status.fault, &out);
    out.Put(static_cast<std::uint8_t>(status.active ? 1 : 0));
    out.Put(status.left);
    out.Put(status.left_ms);
    out.Put(status.injected);
  }
  return out.Take();
}

absl::StatusOr<DeviceFaults> DecodeDeviceFaults(absl::string_view bytes) {
  ByteReader in(bytes);
  DeviceFaults faults(in.Get<std::uint8_t>());
  for (rdma::DeviceFaultStatus& status : faults) {
    status.fault = GetDeviceFault(&in);
    status.active = in.Get<std::uint8_t>() != 0;
    status.left = in.Get<std::uint32_t>();
    status.left_ms = in.Get<std::uint32_t>();
    status.injected = in.Get<std::uint64_t>();
  }
  if (!in.finished()) return absl::InvalidArgumentError("faults of a device are malformed");
  for (const rdma::DeviceFaultStatus& status : faults)
    RING_RETURN_IF_ERROR(rdma::CheckDeviceFault(status.fault));
  return faults;
}

}  // namespace ring::node
