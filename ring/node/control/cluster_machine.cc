#include "ring/node/control/cluster_machine.h"

#include "absl/strings/str_cat.h"

#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/node/fence/role_mark.h"

namespace ring::node {
namespace {

// Of what stands before the state's own bytes.
constexpr std::uint16_t kSnapshotVersion = 2;

struct Parts {
  consensus::LogIndex roles = 0;
  absl::string_view state;
};

absl::StatusOr<Parts> Split(absl::string_view snapshot) {
  ByteReader in(snapshot);
  const auto version = in.Get<std::uint16_t>();
  Parts parts;
  parts.roles = in.Get<std::uint64_t>();
  if (!in.ok() || version != kSnapshotVersion) {
    return absl::InvalidArgumentError(absl::StrCat("snapshot of the cluster: version=", version,
                                                   " is not ", kSnapshotVersion,
                                                   ": it is of another release"));
  }
  parts.state = *in.rest();
  return parts;
}

}  // namespace

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

absl::StatusOr<std::string> ClusterMachine::Apply(consensus::LogIndex index,
                                                  absl::string_view data) {
  if (MayChangeRoles(data)) roles_ = index;
  const cluster::ClusterResult result = state_.Apply(data);
  if (result.changed) on_view_(state_.view());
  RING_RETURN_IF_ERROR(result.status);
  return EncodeResult(result);
}

std::string ClusterMachine::Snapshot() {
  ByteWriter out;
  out.Put(kSnapshotVersion);
  out.Put(roles_);
  out.PutBytes(state_.Snapshot());
  return out.Take();
}

absl::StatusOr<consensus::LogIndex> ClusterMachine::RolesOf(absl::string_view snapshot) {
  RING_ASSIGN_OR_RETURN(const Parts parts, Split(snapshot));
  return parts.roles;
}

absl::StatusOr<std::uint64_t> ClusterMachine::FoundingOf(absl::string_view snapshot) {
  RING_ASSIGN_OR_RETURN(const Parts parts, Split(snapshot));
  RING_ASSIGN_OR_RETURN(const cluster::ClusterState state,
                        cluster::ClusterState::FromSnapshot(parts.state));
  return state.view()->founding;
}

absl::Status ClusterMachine::Restore(absl::string_view bytes) {
  RING_ASSIGN_OR_RETURN(const Parts parts, Split(bytes));
  RING_ASSIGN_OR_RETURN(state_, cluster::ClusterState::FromSnapshot(parts.state));
  roles_ = parts.roles;
  on_view_(state_.view());
  return absl::OkStatus();
}

}  // namespace ring::node
