// What goes wrong, and when it ends.
#include <algorithm>
#include <utility>

#include "tests/consensus/sim/world.h"

namespace ring::consensus::sim {

void World::InjectFault() {
  constexpr Fault kChoices[] = {Fault::kPartition, Fault::kIsolation, Fault::kAsymmetric,
                                Fault::kBridge,    Fault::kFlapping,  Fault::kCrash,
                                Fault::kPause,     Fault::kDiskLoss,  Fault::kTransfer};
  std::vector<Fault> enabled;
  for (const Fault fault : kChoices) {
    if (profile_.Has(fault)) enabled.push_back(fault);
  }
  if (enabled.empty()) return;
  const Fault fault = enabled[random_.Below(enabled.size())];
  Trace("fault", static_cast<std::uint64_t>(fault), 0, 0);
  switch (fault) {
    case Fault::kCrash:
      return CrashOne(/*lose_disk=*/false);
    case Fault::kDiskLoss:
      return CrashOne(/*lose_disk=*/true);
    case Fault::kPause: {
      const std::uint32_t index = Victim();
      const std::uint64_t length = Outage();
      // A round of heartbeats may be under way, and a request that waited meanwhile comes before
      // its answers: they lie behind it in the same socket, or are still on their way.
      ReadAt(index);
      Push(length, EventType::kQueuedRead, index);
      nodes_[index].paused_until = now_ + length;
      Count(Fault::kPause);
      return;
    }
    case Fault::kTransfer: {
      const auto leader = SomeLeader();
      if (!leader.has_value()) return;
      nodes_[*leader].raft->Transfer(nodes_[AnyNode()].id).IgnoreError();
      Pump(*leader);
      Count(Fault::kTransfer);
      return;
    }
    default:
      return CutLinks(fault);
  }
}

std::uint32_t World::Victim() {
  if (profile_.storm && Chance(700)) {
    if (const auto leader = SomeLeader(); leader.has_value()) return *leader;
  }
  return AnyNode();
}

void World::CutLinks(Fault fault) {
  if (fault != Fault::kFlapping) Heal();
  Count(fault);
  const std::size_t count = nodes_.size();
  const std::uint32_t one = Victim();
  std::vector<std::uint64_t> side(count);
  for (auto& s : side) s = random_.Below(2);
  switch (fault) {
    case Fault::kIsolation:
      for (std::size_t i = 0; i < count; ++i) side[i] = i == one ? 1 : 0;
      break;
    case Fault::kFlapping: {
      const std::uint32_t other = AnyNode();
      if (other != one) Push(1, EventType::kFlap, one, other);
      return;
    }
    default:
      break;
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      if (a == b || side[a] == side[b]) continue;
      if (fault == Fault::kBridge && (a == one || b == one)) continue;
      if (fault == Fault::kAsymmetric && side[a] == 0) continue;
      cut_[a][b] = 1;
    }
  }
  Push(Outage(), EventType::kHeal, 0);
}

void World::Heal() {
  for (auto& row : cut_) std::fill(row.begin(), row.end(), 0);
}

// One lost disk at a time, and only when those that remain are enough: more is beyond what any
// consensus survives.
bool World::MayLoseDisk(std::uint32_t index) const {
  const ServerId id = nodes_[index].id;
  std::size_t voters = 0;
  for (const Node& node : nodes_) {
    if (node.raft == nullptr) return false;
    const Configuration& configuration = node.raft->configuration();
    for (const auto& grave : graves_) {
      if (configuration.Contains(grave.first)) return false;
    }
    if (configuration.IsVoter(id)) voters = std::max(voters, configuration.voters.size());
    if (configuration.IsVoter(id) && configuration.voters.size() < 3) return false;
    if (!node.raft->configuration_committed()) return false;
  }
  return voters >= 3;
}

void World::CrashOne(bool lose_disk) {
  const std::uint32_t index = Victim();
  Node& node = nodes_[index];
  if (node.raft == nullptr) return;
  if (lose_disk && !MayLoseDisk(index)) return;
  Stop(index);
  Count(lose_disk ? Fault::kDiskLoss : Fault::kCrash);
  if (lose_disk) {
    if (!bugs_.amnesiac_keeps_its_id) graves_[node.id] = std::move(node.disk);
    node.disk = {};
    node.lost_disk = true;
  }
  // Sometimes at once, before anybody can notice.
  Push(random_.Below(4) == 0 ? 1 : Outage(), EventType::kRestart, index);
}

void World::Restart(std::uint32_t index) {
  Node& node = nodes_[index];
  if (std::exchange(node.lost_disk, false) && !bugs_.amnesiac_keeps_its_id) {
    node.id = MakeServerId(static_cast<std::uint16_t>(index + 1), ++next_number_);
  }
  Start(index);
}

}  // namespace ring::consensus::sim
