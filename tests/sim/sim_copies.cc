// Requests that come once more (F7): which ones may, and what their clients' answers then mean.
#include <algorithm>
#include <utility>

#include "ring/cluster/routing.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

void SimCluster::Sent(SentRequest request) {
  constexpr std::size_t kSentMax = 4096;
  request.tenure = TenureOf(request.key);
  sent_.push_back(std::move(request));
  if (sent_.size() > kSentMax) sent_.pop_front();
}

// As of the last look at the view.
std::uint32_t SimCluster::TenureOf(int key) const {
  const cluster::Place place = cluster::Routing(view_->s, view_->d).OfKey(KeyName(key));
  return tenures_[static_cast<std::size_t>(place.group.value() * view_->s + place.shard.value())];
}

NodeId SimCluster::OwnerOf(int key) {
  const cluster::View& view = this->view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(key));
  return view.Coordinator(place.group, place.shard);
}

const SentRequest* SimCluster::CopyToSend(std::uint64_t late_ns) {
  if (network_.now_ns() < late_ns) return nullptr;
  const std::uint64_t time_ns = network_.now_ns() - late_ns;
  const auto behind = std::upper_bound(
      sent_.begin(), sent_.end(), time_ns,
      [](std::uint64_t time, const SentRequest& request) { return time < request.time_ns; });
  if (behind == sent_.begin() || !MayCopy(*std::prev(behind))) return nullptr;
  const SentRequest& chosen = *std::prev(behind);
  if (history_[chosen.at].result == OpResult::kPending) repeated_.insert(chosen.at);
  return &chosen;
}

// A network below the clients' connections keeps no copies of what it delivered: what a coordinator
// decided without an entry (a refusal, a mismatch, a move that moved nothing) it need not remember
// beyond its tenure; nor are records of Rep(1) to outlive their versions (X7).
bool SimCluster::MayCopy(const SentRequest& request) {
  WatchRoles();
  const Operation& op = history_[request.at];
  const bool undecided = op.result == OpResult::kFailed && !op.mismatch;
  // The client's own attempt may yet be refused, and made again in a tenure that has no record.
  const bool weak = op.tolerates == 0 || (op.tolerates < 0 && op.kind == OpKind::kPut);
  const bool open = op.result == OpResult::kPending && weak;
  if (overran_ || undecided || open) return false;
  if (TenureOf(op.key) == request.tenure) return true;
  // Tombstones are where records outlive their coordinator, if there is such a memgest (X7).
  if (op.kind == OpKind::kDelete) return options_.copies_deletes && op.result == OpResult::kOk;
  const bool may_have_effect = op.result != OpResult::kNotFound && !op.mismatch;
  return may_have_effect && op.kind == OpKind::kPut && op.tolerates >= 1;
}

// The copy may be what was executed, though the client's own attempt was refused.
void SimCluster::DoubtRepeated(std::size_t at) {
  Operation& op = history_[at];
  if (repeated_.erase(at) == 0 || op.result == OpResult::kOk) return;
  op.result = OpResult::kUnknown;
  op.mismatch = false;
  op.version = Version();
}

}  // namespace ring::sim
