#include "ring/cluster/view.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "ring/protocol/limits.h"

namespace ring::cluster {
namespace {

absl::Status Refuse(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("view: ", what));
}

absl::Status ValidateShape(const View& view) {
  if (view.s < 1 || view.s > kShardCountMax) {
    return Refuse(absl::StrCat("s=", view.s, " must be 1 to ", kShardCountMax));
  }
  if (view.d < 0 || view.d > kRedundancyMax) {
    return Refuse(absl::StrCat("d=", view.d, " must be 0 to ", kRedundancyMax));
  }
  if (view.value_size_max == 0 || view.value_size_max > kValueSizeMaxLimit) {
    return Refuse(
        absl::StrCat("value_size_max=", view.value_size_max, " must be 1 to ", kValueSizeMaxLimit));
  }
  return absl::OkStatus();
}

absl::Status ValidateNode(const NodeInfo& node) {
  const std::pair<absl::string_view, absl::string_view> fields[] = {
      {"name", node.name},
      {"local_address", node.local_address},
      {"shm_address", node.shm_address},
      {"tcp_address", node.tcp_address},
      {"admin_address", node.admin_address},
      {"host", node.host}};
  for (const auto& [field, text] : fields) {
    if (text.size() > kAddressSizeMax) {
      return Refuse(absl::StrCat("node=", node.id.value(), " ", field, " has size=", text.size(),
                                 ", at most ", kAddressSizeMax));
    }
  }
  if (node.name.empty()) return Refuse(absl::StrCat("node=", node.id.value(), " has no name"));
  return absl::OkStatus();
}

absl::Status ValidateNodes(const View& view) {
  const std::size_t count = view.nodes.size();
  if (count < static_cast<std::size_t>(view.group_count()) || count > kNodeCountMax) {
    return Refuse(absl::StrCat("node_count=", count, " must be s+d=", view.group_count(), " to ",
                               kNodeCountMax));
  }
  absl::flat_hash_set<absl::string_view> names;
  absl::flat_hash_set<absl::string_view> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeInfo& node = view.nodes[i];
    if (node.id.value() != i) {
      return Refuse(absl::StrCat("node=", node.id.value(), " stands at index=", i));
    }
    RING_RETURN_IF_ERROR(ValidateNode(node));
    if (!names.insert(node.name).second) {
      return Refuse(absl::StrCat("two nodes have name=", node.name));
    }
    for (const std::string* address :
         {&node.local_address, &node.shm_address, &node.tcp_address, &node.admin_address}) {
      if (!address->empty() && !addresses.insert(*address).second) {
        return Refuse(absl::StrCat("two listeners have address=", *address));
      }
    }
  }
  return absl::OkStatus();
}

// L10: two members of one stripe or replica set on one node would be lost together.
absl::Status ValidateGroups(const View& view) {
  const auto count = static_cast<std::size_t>(view.group_count());
  if (view.groups.size() != count) {
    return Refuse(absl::StrCat("group_count=", view.groups.size(), " must be s+d=", count));
  }
  for (std::size_t g = 0; g < count; ++g) {
    const GroupView& group = view.groups[g];
    if (group.epoch.value() == 0 || group.epoch.value() > kEpochMax) {
      return Refuse(
          absl::StrCat("group=", g, " epoch=", group.epoch.value(), " must be 1 to ", kEpochMax));
    }
    if (group.roles.size() != count) {
      return Refuse(
          absl::StrCat("group=", g, " role_count=", group.roles.size(), " must be s+d=", count));
    }
    absl::flat_hash_set<NodeId> holders;
    for (const NodeId holder : group.roles) {
      if (holder.value() >= view.nodes.size()) {
        return Refuse(absl::StrCat("group=", g, " names unknown node=", holder.value()));
      }
      if (!holders.insert(holder).second) {
        return Refuse(absl::StrCat("group=", g, " has two roles on node=", holder.value()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateMemgests(const View& view) {
  absl::flat_hash_set<absl::string_view> names;
  MemgestId last(0);
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    if (memgest.id <= last) {
      return Refuse(absl::StrCat("memgest=", memgest.id.value(), " follows ", last.value(),
                                 ": ids must ascend from 1"));
    }
    last = memgest.id;
    RING_RETURN_IF_ERROR(memgest.Validate(view.s, view.d));
    if (memgest.state != protocol::MemgestState::kDeleted && !names.insert(memgest.name).second) {
      return Refuse(absl::StrCat("two memgests have name=", memgest.name));
    }
  }
  const protocol::MemgestDescriptor* chosen = view.FindMemgest(view.default_memgest);
  if (chosen == nullptr || chosen->state != protocol::MemgestState::kActive) {
    return Refuse(
        absl::StrCat("default memgest=", view.default_memgest.value(), " is not an active one"));
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::Status View::Validate() const {
  RING_RETURN_IF_ERROR(ValidateShape(*this));
  RING_RETURN_IF_ERROR(ValidateNodes(*this));
  RING_RETURN_IF_ERROR(ValidateGroups(*this));
  return ValidateMemgests(*this);
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
  view.value_size_max = protocol::kValueSizeMaxDefault;
  view.nodes = std::move(nodes);
  for (int g = 0; g < count; ++g) {
    GroupView group{Epoch(1), {}};
    for (int x = 0; x < count; ++x) {
      group.roles.push_back(NodeId(static_cast<std::uint32_t>((g + x) % count)));
    }
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
