#include "ring/node/control/failure_detector.h"

#include <algorithm>

#include "consensus/types.h"
#include "ring/base/mutant.h"

namespace ring::node {

bool FailureDetector::HearsMajority(const std::vector<consensus::PeerStatus>& peers) const {
  std::size_t voters = 1;
  std::size_t heard = 1;
  for (const consensus::PeerStatus& peer : peers) {
    voters += peer.voter ? 1 : 0;
    heard += peer.voter && peer.silent_ticks < half_ticks_ ? 1 : 0;
  }
  return 2 * heard > voters;
}

std::uint64_t FailureDetector::PresentSince(const cluster::NodeInfo& node, bool first) {
  const Present now{node.incarnation, first ? 0 : tenure_ticks_};
  Present& present = present_.try_emplace(node.id, now).first->second;
  if (present.incarnation != node.incarnation) present = now;
  return present.since;
}

std::uint64_t FailureDetector::PatienceWith(Link link) const {
  if (link == Link::kUp) return detect_ticks_;
  if (link == Link::kNever && !Mutant("L4-never")) return unreached_ticks_;
  return Mutant("L4") ? 0 : half_ticks_;
}

std::vector<NodeId> FailureDetector::Silent(const cluster::View& view,
                                            const std::vector<consensus::PeerStatus>& peers,
                                            absl::FunctionRef<Link(NodeId)> link) {
  if (!HearsMajority(peers)) patient_since_ = tenure_ticks_;
  const bool first = present_.empty();  // of the tenure: who is up now registered before it
  std::vector<NodeId> silent;
  for (const cluster::NodeInfo& node : view.nodes) {
    const bool present =
        node.status == cluster::NodeStatus::kUp || node.status == cluster::NodeStatus::kDraining;
    if (!present) present_.erase(node.id);
    if (!present || node.id == self_ || node.incarnation.value() == 0) continue;
    std::uint64_t ticks = tenure_ticks_ - std::max(patient_since_, PresentSince(node, first));
    std::uint64_t stuck_ticks = ticks;
    for (const consensus::PeerStatus& peer : peers) {
      // A node may have a former server in the configuration, too.
      if (consensus::NodeOf(peer.id) == node.id.value()) {
        ticks = std::min(ticks, peer.silent_ticks);
        stuck_ticks = std::min(stuck_ticks, peer.stuck_ticks);
      }
    }
    const bool stuck = stuck_ticks >= kStuckDetections * detect_ticks_;
    if (ticks >= PatienceWith(link(node.id)) || stuck) silent.push_back(node.id);
  }
  return silent;
}

}  // namespace ring::node
