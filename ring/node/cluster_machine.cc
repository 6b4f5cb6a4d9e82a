#include "ring/node/cluster_machine.h"

#include <utility>

#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::node {

std::string EncodeResult(const cluster::ClusterResult& result) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(result.changed ? 1 : 0));
  out.Put(static_cast<std::uint8_t>(result.duplicate ? 1 : 0));
  out.Put(result.memgest.value());
  out.Put(result.node.value());
  return out.Take();
}

absl::StatusOr<cluster::ClusterResult> DecodeResult(absl::string_view bytes) {
  ByteReader in(bytes);
  cluster::ClusterResult result;
  result.changed = in.Get<std::uint8_t>() != 0;
  result.duplicate = in.Get<std::uint8_t>() != 0;
  result.memgest = MemgestId(in.Get<std::uint16_t>());
  result.node = NodeId(in.Get<std::uint32_t>());
  if (!in.finished()) {
    return absl::InvalidArgumentError("result of a cluster command has a wrong size");
  }
  return result;
}

absl::StatusOr<std::string> ClusterMachine::Apply(consensus::LogIndex, absl::string_view data) {
  const cluster::ClusterResult result = state_.Apply(data);
  if (result.changed) on_view_(state_.view());
  RING_RETURN_IF_ERROR(result.status);
  return EncodeResult(result);
}

absl::Status ClusterMachine::Restore(absl::string_view bytes) {
  RING_ASSIGN_OR_RETURN(state_, cluster::ClusterState::FromSnapshot(bytes));
  on_view_(state_.view());
  return absl::OkStatus();
}

}  // namespace ring::node
