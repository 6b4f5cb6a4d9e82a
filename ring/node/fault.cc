#include "ring/node/fault.h"

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::node {

absl::Status CheckFault(const Fault& fault) {
  if (fault.kind < FaultKind::kKill || fault.kind > FaultKind::kBreak) {
    return absl::InvalidArgumentError(
        absl::StrCat("fault kind=", static_cast<int>(fault.kind), " is not known"));
  }
  const bool lasts = fault.kind == FaultKind::kPause || fault.kind == FaultKind::kDrop;
  if (lasts && (fault.duration_ms == 0 || fault.duration_ms > kFaultMsMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("duration_ms=", fault.duration_ms, " must be from 1 to ", kFaultMsMax));
  }
  const bool has_peer = fault.kind == FaultKind::kDrop || fault.kind == FaultKind::kBreak;
  if (has_peer && fault.peer == cluster::kNoNode) {
    return absl::InvalidArgumentError("peer is missing: between which nodes?");
  }
  return absl::OkStatus();
}

std::string EncodeFault(const Fault& fault) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(fault.kind));
  out.Put(fault.peer.value());
  out.Put(fault.duration_ms);
  return out.Take();
}

absl::StatusOr<Fault> DecodeFault(absl::string_view bytes) {
  ByteReader in(bytes);
  Fault fault;
  fault.kind = static_cast<FaultKind>(in.Get<std::uint8_t>());
  fault.peer = NodeId(in.Get<std::uint32_t>());
  fault.duration_ms = in.Get<std::uint32_t>();
  if (!in.ok() || !in.rest()->empty()) return absl::InvalidArgumentError("fault is malformed");
  RING_RETURN_IF_ERROR(CheckFault(fault));
  return fault;
}

}  // namespace ring::node
