// ring/node/control/cluster_machine.h — the cluster's state machine as consensus drives it.
//
// What:      ClusterMachine: a ClusterState behind the port of consensus::Replica; tells of each
//            new view. EncodeResult and DecodeResult: what a proposal's outcome is on its way back.
// Shape:     a refused command's result is its status; bytes are those of an accepted one. A
//            snapshot has the state, and the last command that may change a role (L1).
// Ownership: owns the state.
// Threads:   one, the node's.
// Errors:    Restore: as ClusterState::FromSnapshot, and kInvalidArgument, as RolesOf, for bytes of
//            another version. DecodeResult: kInvalidArgument.
#ifndef RING_NODE_CONTROL_CLUSTER_MACHINE_H_
#define RING_NODE_CONTROL_CLUSTER_MACHINE_H_

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "consensus/replica.h"
#include "ring/cluster/cluster_state.h"

namespace ring::node {

std::string EncodeResult(const cluster::ClusterResult& result);
absl::StatusOr<cluster::ClusterResult> DecodeResult(absl::string_view bytes);

class ClusterMachine final : public consensus::StateMachine {
 public:
  using OnView = absl::AnyInvocable<void(const std::shared_ptr<const cluster::View>&)>;

  ClusterMachine(cluster::ClusterState first, OnView on_view)
      : state_(std::move(first)), on_view_(std::move(on_view)) {}

  absl::StatusOr<std::string> Apply(consensus::LogIndex index, absl::string_view data) override;
  std::string Snapshot() override;
  absl::Status Restore(absl::string_view bytes) override;

  const cluster::ClusterState& state() const { return state_; }
  const cluster::View& view() const { return *state_.view(); }
  // The last command that was applied and may change a role (MayChangeRoles); 0: none was.
  consensus::LogIndex roles() const { return roles_; }
  // The same, of a snapshot.
  static absl::StatusOr<consensus::LogIndex> RolesOf(absl::string_view snapshot);
  static absl::StatusOr<std::uint64_t> FoundingOf(absl::string_view snapshot);  // 0: none yet

 private:
  cluster::ClusterState state_;
  consensus::LogIndex roles_ = 0;
  OnView on_view_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CLUSTER_MACHINE_H_
