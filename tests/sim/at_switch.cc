#include "tests/sim/at_switch.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ring/base/mutant.h"

namespace ring::sim {

AtSwitch::AtSwitch(SimCluster* cluster, const FaultOptions& options,
                   std::function<void(const Order&)> call)
    : cluster_(cluster),
      options_(options),
      random_(cluster->seed() ^ 0x5317c4),
      call_(std::move(call)) {
  skip_bits_ = random_.Below(options.f1_at_switch_skip_bits_max + 1);
  DrawSkip();
  SetMutantListener([this] { OnSwitch(); });
}

AtSwitch::~AtSwitch() { SetMutantListener(nullptr); }

void AtSwitch::DrawSkip() { skip_ = random_.Below(std::uint64_t{1} << skip_bits_); }

void AtSwitch::OnSwitch() {
  const auto& nodes = cluster_->nodes();
  const auto here = std::find_if(nodes.begin(), nodes.end(),
                                 [](const auto& node) { return node->up() && node->at_work(); });
  // Else a client came there, or what decides of a simulated crash.
  if (here == nodes.end() || orders_ == options_.f1_at_switch_max) return;
  if (skip_ > 0) {
    --skip_;
    return;
  }
  DrawSkip();
  ++orders_;
  ++cluster_->network().faults().by_kind["F1 at a switch"];
  call_(Draw((*here)->info().id));
}

AtSwitch::Order AtSwitch::Draw(NodeId here) {
  constexpr Deed kDeeds[] = {Deed::kCrash, Deed::kCrash,   Deed::kCrash,    Deed::kCrashTwo,
                             Deed::kPause, Deed::kSilence, Deed::kWithhold, Deed::kMute};
  Order order;
  order.deed = kDeeds[random_.Below(std::size(kDeeds))];
  order.node = here;
  order.other = AnotherOf(here);
  if (random_.Below(2) == 0) std::swap(order.node, order.other);
  // At once, or after any time: what was on its way is there, others know it, it is answered.
  if (random_.Below(3) != 0) {
    const std::uint64_t bits = random_.Below(18);
    order.delay_ns =
        std::min(random_.Below(std::uint64_t{200} << bits), options_.f1_at_switch_max_ns);
  }
  return order;
}

// Of a group that it has a role in, if that is so.
NodeId AtSwitch::AnotherOf(NodeId node) {
  std::vector<NodeId> others;
  for (const cluster::GroupView& group : cluster_->view().groups) {
    if (std::find(group.roles.begin(), group.roles.end(), node) == group.roles.end()) continue;
    std::copy_if(group.roles.begin(), group.roles.end(), std::back_inserter(others),
                 [node](NodeId one) { return one != node && one != cluster::kNoNode; });
  }
  if (others.empty()) {
    for (const auto& one : cluster_->nodes())
      if (one->info().id != node) others.push_back(one->info().id);
  }
  return others[random_.Below(others.size())];
}

}  // namespace ring::sim
