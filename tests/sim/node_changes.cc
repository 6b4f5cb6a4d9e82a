// What operators do to nodes during a run: they drain, add and remove some (F12), or start one with
// another version (F14).
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/node_faults.h"

namespace ring::sim {
namespace {

using rdma::sim::FaultClass;
constexpr std::uint64_t kUs = FaultOptions::kUs;
constexpr std::uint64_t kMs = FaultOptions::kMs;
constexpr std::uint64_t kAgainNs = 20 * kMs;  // an operator asks again

}  // namespace

// What it coordinates goes to others, who bring its values from members: as if it were lost.
void NodeFaults::Drain() {
  drain_ns_ = 0;
  const NodeId node = Victim();
  node::Node* const informed = BestInformed();
  if (informed == nullptr || !cluster_->nodes()[node.value()]->up() || !MayLose({node})) return;
  cluster_->network().faults().Count(FaultClass::kF12Change);
  // A coordinator that gave its role away is no source of its own logs: it counts as lost.
  absences_->Add(node, Absences::kForEver);
  cluster_->Note(absl::StrCat("node ", node.value(), " is drained"));
  informed->membership().Propose(cluster::DrainNode{node},
                                 [](const absl::StatusOr<cluster::ClusterResult>&) {});
  cluster_->nodes()[informed->id().value()]->Touch();
  if (!OneIn(apart_, options_.f12_remove_one_in)) return;
  leaving_ = node;
  propose_ns_ = now_ns() + kAgainNs;
}

// F12: a process that the configuration does not name, and an operator's word for it.
void NodeFaults::AddNode() {
  absl::StatusOr<cluster::AddNode> added = cluster_->StartAddedNode();
  if (!added.ok()) {  // F11: no memory at present
    add_ns_ = now_ns() + kAgainNs;
    return;
  }
  add_ns_ = 0;
  added_ = *std::move(added);
  down_.emplace_back();
  foreign_until_ns_.push_back(0);
  cluster_->network().faults().Count(FaultClass::kF12Change, "nodes added");
  ProposeAdded();
}

// Until it is agreed upon: who was asked may be lost.
void NodeFaults::ProposeAdded() {
  propose_ns_ = 0;
  if (!added_.has_value()) return;
  const std::vector<cluster::NodeInfo>& known = cluster_->view().nodes;
  const bool done = std::any_of(known.begin(), known.end(), [&](const cluster::NodeInfo& node) {
    return node.name == added_->info.name;
  });
  if (done) return added_.reset();
  propose_ns_ = now_ns() + kAgainNs;
  node::Node* const informed = BestInformed();
  if (informed == nullptr) return;
  informed->membership().Propose(*added_, [](const absl::StatusOr<cluster::ClusterResult>&) {});
  cluster_->nodes()[informed->id().value()]->Touch();
}

bool NodeFaults::Settled() {
  if (added_.has_value() && now_ns() >= propose_ns_) ProposeAdded();
  return !added_.has_value();
}

// Its process ends when it is not needed any more.
void NodeFaults::RemoveDrained() {
  if (!leaving_.has_value()) return;
  const NodeId node = *leaving_;
  if (cluster_->view().nodes[node.value()].status == cluster::NodeStatus::kRemoved) {
    leaving_.reset();
    cluster_->network().faults().Count(FaultClass::kF12Change, "nodes removed");
    cluster_->Note(absl::StrCat("node ", node.value(), " is removed"));
    down_[node.value()].restart_ns = 0;
    if (cluster_->nodes()[node.value()]->up()) cluster_->CrashNode(node);
    return;
  }
  propose_ns_ = now_ns() + kAgainNs;
  node::Node* const informed = BestInformed();
  if (informed == nullptr) return;
  informed->membership().Propose(cluster::RemoveNode{node},
                                 [](const absl::StatusOr<cluster::ClusterResult>&) {});
  cluster_->nodes()[informed->id().value()]->Touch();
}

// F14: nobody lets it in, and it lets nobody in, until somebody sees why. Drawn apart, so that
// everything else comes as ever.
void NodeFaults::SpeakForeign(NodeId node) {
  SeededRandom random(now_ns() ^ 0xf14);
  if (!OneIn(random, options_.f14_one_in)) return;
  constexpr std::uint16_t kOffsets[] = {0xffff, 1, 100};  // the one before, the next one, far away
  const std::uint64_t length_ns = kMs << random.Below(options_.f14_doublings);
  cluster_->Note(
      absl::StrCat("node ", node.value(), " speaks another protocol for us=", length_ns / kUs));
  foreign_until_ns_[node.value()] = now_ns() + length_ns;
  absences_->Add(node, now_ns() + length_ns + 300 * kMs);
  cluster_->nodes()[node.value()]->Speak(
      static_cast<std::uint16_t>(protocol::kProtocolVersion + kOffsets[random.Below(3)]));
}

void NodeFaults::SpeakDue() {
  for (std::size_t i = 0; i < foreign_until_ns_.size(); ++i) {
    if (foreign_until_ns_[i] == 0 || now_ns() < foreign_until_ns_[i]) continue;
    foreign_until_ns_[i] = 0;
    if (cluster_->nodes()[i]->up()) cluster_->nodes()[i]->Speak(protocol::kProtocolVersion);
  }
}

}  // namespace ring::sim
