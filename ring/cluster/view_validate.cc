// What no view can be.
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ring/base/limits.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/cluster/view.h"

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
  if (view.value_size_max == 0 || view.value_size_max > kValueSizeMax) {
    return Refuse(
        absl::StrCat("value_size_max=", view.value_size_max, " must be 1 to ", kValueSizeMax));
  }
  if (view.voter_count == 0 || view.voter_count > kVoterCountMax) {
    return Refuse(absl::StrCat("voter_count=", view.voter_count, " must be 1 to ", kVoterCountMax));
  }
  if (view.overrun != OverrunPolicy::kStop && view.overrun != OverrunPolicy::kContinue) {
    return Refuse(absl::StrCat("overrun=", static_cast<int>(view.overrun), " is not known"));
  }
  return absl::OkStatus();
}

absl::Status ValidateNode(const NodeInfo& node) {
  const std::pair<absl::string_view, absl::string_view> fields[] = {
      {"name", node.name},
      {"local_address", node.local_address},
      {"shm_address", node.shm_address},
      {"tcp_address", node.tcp_address},
      {"rdma_address", node.rdma_address},
      {"admin_address", node.admin_address},
      {"host", node.host}};
  for (const auto& [field, text] : fields) {
    if (text.size() > kAddressSizeMax) {
      return Refuse(absl::StrCat("node=", node.id.value(), " ", field, " has size=", text.size(),
                                 ", at most ", kAddressSizeMax));
    }
  }
  if (node.status < NodeStatus::kUp || node.status > NodeStatus::kRemoved) {
    return Refuse(absl::StrCat("node=", node.id.value(), " status=", static_cast<int>(node.status),
                               " is not known"));
  }
  if (node.was_draining && node.status != NodeStatus::kDown) {
    return Refuse(absl::StrCat("node=", node.id.value(), " was draining, and is not down"));
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
    for (const std::string* address : {&node.local_address, &node.shm_address, &node.tcp_address,
                                       &node.rdma_address, &node.admin_address}) {
      if (!address->empty() && !addresses.insert(*address).second) {
        return Refuse(absl::StrCat("two listeners have address=", *address));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateRoles(const View& view, std::size_t g) {
  const GroupView& group = view.groups[g];
  const std::size_t count = view.groups.size();
  if (group.roles.size() != count || group.incarnations.size() != count) {
    return Refuse(absl::StrCat("group=", g, " role_count=", group.roles.size(),
                               " incarnation_count=", group.incarnations.size(),
                               " must be s+d=", count));
  }
  absl::flat_hash_set<NodeId> holders;
  for (std::size_t x = 0; x < count; ++x) {
    const NodeId holder = group.roles[x];
    if (holder == kNoNode) {
      if (group.incarnations[x].value() == 0) continue;
      return Refuse(absl::StrCat("group=", g, " role=", x, " is vacant with an incarnation"));
    }
    if (holder.value() >= view.nodes.size()) {
      return Refuse(absl::StrCat("group=", g, " names unknown node=", holder.value()));
    }
    // L10: two members of one stripe or replica set on one node would be lost together.
    if (!holders.insert(holder).second && !Mutant("L10")) {
      return Refuse(absl::StrCat("group=", g, " has two roles on node=", holder.value()));
    }
  }
  return absl::OkStatus();
}

bool Inside(std::uint32_t mask, const View& view) { return (mask >> view.group_count()) == 0; }

absl::Status ValidateMemgestNormal(const View& view, const MemgestNormal& memgest) {
  if (view.FindMemgest(memgest.id) == nullptr) return Refuse("names an unknown memgest");
  if (!Inside(memgest.active, view) || (memgest.complete & ~memgest.active) != 0) {
    return Refuse(absl::StrCat("active=", memgest.active, " complete=", memgest.complete,
                               ": complete roles must be active ones of the group"));
  }
  int last = -1;
  for (const ActiveFrom& from : memgest.active_from) {
    const int role = from.role.value();
    if (role <= last || role >= view.group_count() || !Has(memgest.active, from.role) ||
        from.extent == 0) {
      return Refuse(absl::StrCat("active_from of role=", role,
                                 ": roles must ascend, be active, and begin behind extent 0"));
    }
    last = role;
  }
  return absl::OkStatus();
}

absl::Status ValidateNormal(const View& view, const GroupView& group, const NormalRecord& normal) {
  if (normal.epoch.value() == 0) {
    if (normal.holders.empty() && normal.memgests.empty()) return absl::OkStatus();
    return Refuse("Normal of no epoch names holders or memgests");
  }
  if (normal.epoch > group.epoch) {
    return Refuse(absl::StrCat("Normal of epoch=", normal.epoch.value(),
                               " is ahead of epoch=", group.epoch.value()));
  }
  if (normal.holders.size() != group.roles.size()) {
    return Refuse(absl::StrCat("Normal has holder_count=", normal.holders.size()));
  }
  for (const Holder& holder : normal.holders) {
    const bool vacant = holder == Holder{kNoNode, Incarnation()};
    if (!vacant && holder.node.value() >= view.nodes.size()) {
      return Refuse(absl::StrCat("Normal names unknown node=", holder.node.value()));
    }
  }
  MemgestId last;
  for (const MemgestNormal& memgest : normal.memgests) {
    if (memgest.id <= last) return Refuse("Normal: memgest ids must ascend from 1");
    last = memgest.id;
    RING_RETURN_IF_ERROR(ValidateMemgestNormal(view, memgest));
  }
  return absl::OkStatus();
}

absl::Status ValidateShard(const View& view, const GroupView& group, const ShardView& shard) {
  RING_RETURN_IF_ERROR(ValidateNormal(view, group, shard.normal));
  if (shard.overrun_epoch > group.epoch ||
      (shard.overrun_epoch.value() == 0) != shard.overrun.empty()) {
    return Refuse(absl::StrCat("overrun epoch=", shard.overrun_epoch.value(),
                               " memgest_count=", shard.overrun.size()));
  }
  MemgestId last;
  for (const MemgestId memgest : shard.overrun) {
    if (memgest <= last || view.FindMemgest(memgest) == nullptr) {
      return Refuse(absl::StrCat("overrun names memgest=", memgest.value(), " after ", last.value(),
                                 ": ids must be known and ascend"));
    }
    last = memgest;
  }
  return absl::OkStatus();
}

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
    RING_RETURN_IF_ERROR(ValidateRoles(view, g));
    if (!Inside(group.demoted, view)) {
      return Refuse(absl::StrCat("group=", g, " demoted=", group.demoted, " names unknown roles"));
    }
    if (group.shards.size() != static_cast<std::size_t>(view.s)) {
      return Refuse(
          absl::StrCat("group=", g, " shard_count=", group.shards.size(), " must be s=", view.s));
    }
    for (std::size_t i = 0; i < group.shards.size(); ++i) {
      const absl::Status status = ValidateShard(view, group, group.shards[i]);
      if (!status.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(status.message(), " (group=", g, " shard=", i, ")"));
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

absl::Status View::Validate() const {
  RING_RETURN_IF_ERROR(ValidateShape(*this));
  RING_RETURN_IF_ERROR(ValidateNodes(*this));
  RING_RETURN_IF_ERROR(ValidateGroups(*this));
  return ValidateMemgests(*this);
}

}  // namespace ring::cluster
