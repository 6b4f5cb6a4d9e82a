#include "ring/node/fence/lease_service.h"

#include <utility>

#include "absl/status/status.h"
#include "ring/base/mutant.h"

namespace ring::node {

void LeaseService::OnLeadership(bool leads) {
  ++tenure_;
  std::vector<Waiting> given_up = std::exchange(waiting_, {});
  if (leads) granter_.OnElected(clock_->NowNs(), machine_->view());
  for (Waiting& waiting : given_up) {
    waiting.reply(absl::UnavailableError("leadership moved: try again"));
  }
}

void LeaseService::OnRenew(NodeId from, absl::string_view body, ControlReply reply) {
  const absl::StatusOr<LeaseRenewal> renewal = DecodeRenewal(body);
  if (!renewal.ok()) return reply(renewal.status());
  if (lease_ns_ == 0) {  // so nobody would wait for it
    return reply(absl::FailedPreconditionError(
        "this node keeps no leases: give all nodes the same fail_over and fence"));
  }
  if (replica_ == nullptr || !replica_->is_ready_leader()) {
    return reply(absl::UnavailableError("is not the leader: try again"));
  }
  if (Mutant("L1-grant")) return Release(from, *renewal, std::move(reply));
  replica_->Read([this, from, renewal = *renewal, tenure = tenure_,
                  reply = std::move(reply)](const absl::Status& status) mutable {
    if (!status.ok()) return reply(status);
    // What is known of grants is of another tenure.
    if (tenure != tenure_) return reply(absl::UnavailableError("leadership moved: try again"));
    Release(from, renewal, std::move(reply));
  });
}

void LeaseService::Release(NodeId node, const LeaseRenewal& renewal, ControlReply reply) {
  if (absl::Status status = granter_.CheckGrant(machine_->view(), node, renewal); !status.ok()) {
    return reply(std::move(status));
  }
  granter_.OnReleased(node, clock_->NowNs());
  reply(std::string());
}

void LeaseService::Propose(const cluster::ClusterCommand& command, std::string bytes,
                           ControlReply reply) {
  const NodeId node =
      lease_ns_ == 0 ? cluster::kNoNode : LeaseGranter::TakesFrom(command, machine_->view());
  if (node == cluster::kNoNode) return ProposeNow(node, std::move(bytes), std::move(reply));
  granter_.Begin(node);
  waiting_.push_back({node, std::move(bytes), std::move(reply)});
}

void LeaseService::ProposeNow(NodeId reassigned, std::string bytes, ControlReply reply) {
  replica_->Propose(std::move(bytes),
                    [this, reassigned, tenure = tenure_,
                     reply = std::move(reply)](absl::StatusOr<std::string> result) mutable {
                      if (tenure == tenure_ && reassigned != cluster::kNoNode)
                        granter_.End(reassigned);
                      reply(std::move(result));
                    });
}

bool LeaseService::Progress(std::uint64_t now_ns) {
  bool any = false;
  for (std::size_t i = 0; i < waiting_.size();) {
    if (now_ns < granter_.OverNs(waiting_[i].node)) {
      ++i;
      continue;
    }
    Waiting due = std::move(waiting_[i]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    ProposeNow(due.node, std::move(due.bytes), std::move(due.reply));
    any = true;
  }
  return any;
}

}  // namespace ring::node
