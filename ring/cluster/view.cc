#include "ring/cluster/view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "ring/base/check.h"
#include "ring/base/limits.h"
#include "ring/protocol/limits.h"

namespace ring::cluster {

int View::spare_count() const {
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [this](const NodeInfo& node) {
    return node.status == NodeStatus::kUp && !HoldsRole(node.id);
  }));
}

bool View::IsAwaited(NodeId node) const {
  if (node.value() >= nodes.size()) return false;
  const NodeInfo& info = nodes[node.value()];
  if (info.status == NodeStatus::kRemoved) return false;
  const bool away = fail_over || info.incarnation.value() == 0;
  return info.status != NodeStatus::kDown || !away;
}

bool View::HoldsRole(NodeId node) const {
  return std::any_of(groups.begin(), groups.end(), [node](const GroupView& group) {
    return std::find(group.roles.begin(), group.roles.end(), node) != group.roles.end();
  });
}

std::optional<Role> View::RoleOf(GroupId group, NodeId node, Incarnation start) const {
  const GroupView& holders = groups[group.value()];
  const auto found = std::find(holders.roles.begin(), holders.roles.end(), node);
  if (found == holders.roles.end()) return std::nullopt;
  const auto place = static_cast<std::size_t>(found - holders.roles.begin());
  const Incarnation holder = holders.incarnations[place];
  if (fail_over && holder != Incarnation() && holder != start) return std::nullopt;
  return Role(static_cast<std::uint16_t>(place));
}

const NodeInfo* View::FindNode(absl::string_view name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [name](const NodeInfo& node) { return node.name == name; });
  return found == nodes.end() ? nullptr : &*found;
}

const NodeInfo* View::FindNodeByText(absl::string_view text) const {
  if (const NodeInfo* const named = FindNode(text); named != nullptr) return named;
  std::uint32_t number = 0;
  return absl::SimpleAtoi(text, &number) && number < nodes.size() ? &nodes[number] : nullptr;
}

const protocol::MemgestDescriptor* View::FindMemgest(MemgestId id) const {
  // Ids are dense from 1 unless a catalogue was trimmed: try the place first.
  const std::size_t place = std::size_t{id.value()} - 1;
  if (id.value() != 0 && place < memgests.size() && memgests[place].id == id) {
    return &memgests[place];
  }
  for (const protocol::MemgestDescriptor& memgest : memgests) {
    if (memgest.id == id) return &memgest;
  }
  return nullptr;
}

const protocol::MemgestDescriptor* View::FindMemgest(absl::string_view name) const {
  for (const protocol::MemgestDescriptor& memgest : memgests) {
    if (memgest.state != protocol::MemgestState::kDeleted && memgest.name == name) return &memgest;
  }
  return nullptr;
}

std::uint64_t ClusterHash(absl::string_view name, int s, int d) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char c : name) mix(static_cast<unsigned char>(c));
  mix(0);
  mix(static_cast<unsigned char>(s));
  mix(static_cast<unsigned char>(d));
  return hash;
}

int DefaultVoterCount(std::size_t node_count) {
  if (node_count >= 5) return 5;
  return node_count >= 3 ? 3 : 1;
}

View InitialView(int s, int d, std::vector<NodeInfo> nodes,
                 std::vector<protocol::MemgestDescriptor> memgests) {
  RING_CHECK(s >= 1) << "s=" << s;
  RING_CHECK(d >= 0) << "d=" << d;
  const int count = s + d;
  RING_CHECK(nodes.size() >= static_cast<std::size_t>(count))
      << "node_count=" << nodes.size() << " s=" << s << " d=" << d;
  View view;
  view.epoch = 1;
  view.s = s;
  view.d = d;
  view.value_size_max = kValueSizeMax;
  view.voter_count = static_cast<std::uint32_t>(DefaultVoterCount(nodes.size()));
  view.nodes = std::move(nodes);
  for (int g = 0; g < count; ++g) {
    GroupView group;
    group.epoch = Epoch(1);
    for (int x = 0; x < count; ++x) {
      const auto holder = static_cast<std::size_t>((g + x) % count);
      group.roles.push_back(NodeId(static_cast<std::uint32_t>(holder)));
      group.incarnations.push_back(view.nodes[holder].incarnation);
    }
    group.shards.resize(static_cast<std::size_t>(s));
    view.groups.push_back(std::move(group));
  }
  bool numbered = false;
  for (const protocol::MemgestDescriptor& memgest : memgests) numbered |= memgest.id.value() != 0;
  if (!numbered) {
    std::uint16_t next = 1;
    for (protocol::MemgestDescriptor& memgest : memgests) memgest.id = MemgestId(next++);
  }
  view.memgests = std::move(memgests);
  if (!view.memgests.empty()) view.default_memgest = view.memgests.front().id;
  return view;
}

}  // namespace ring::cluster
