// ring/node/cluster_machine.h — the cluster's state machine as consensus drives it.
//
// What:      ClusterMachine: a ClusterState behind the port of consensus::Replica; tells of each
//            new view. EncodeResult and DecodeResult: what a proposal's outcome is on its way back.
// Shape:     a refused command's result is its status; bytes are those of an accepted one.
// Ownership: owns the state.
// Threads:   one, the node's.
// Errors:    Restore: as ClusterState::FromSnapshot. DecodeResult: kInvalidArgument.
#ifndef RING_NODE_CLUSTER_MACHINE_H_
#define RING_NODE_CLUSTER_MACHINE_H_

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

  // first: what every node computes from the same configuration.
  ClusterMachine(cluster::View first, OnView on_view)
      : state_(std::move(first)), on_view_(std::move(on_view)) {}

  absl::StatusOr<std::string> Apply(consensus::LogIndex index, absl::string_view data) override;
  std::string Snapshot() override { return state_.Snapshot(); }
  absl::Status Restore(absl::string_view bytes) override;

  const cluster::ClusterState& state() const { return state_; }
  const cluster::View& view() const { return *state_.view(); }

 private:
  cluster::ClusterState state_;
  OnView on_view_;
};

}  // namespace ring::node

#endif  // RING_NODE_CLUSTER_MACHINE_H_
