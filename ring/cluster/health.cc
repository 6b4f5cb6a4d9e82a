#include "ring/cluster/health.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "ring/cluster/active_roles.h"

namespace ring::cluster {
namespace {

void AddNodes(const View& view, std::vector<std::string>* out) {
  for (const NodeInfo& node : view.nodes) {
    if (node.status != NodeStatus::kDown) continue;
    out->push_back(absl::StrCat("node ", node.id.value(), " (", node.name, ") is down",
                                view.HoldsRole(node.id)
                                    ? ", and keeps its roles: what it coordinates is unavailable"
                                    : ""));
  }
}

void AddVacancies(const View& view, std::vector<std::string>* out) {
  std::string coordinators;
  int redundant = 0;
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    const std::vector<NodeId>& roles = view.groups[g].roles;
    for (std::size_t x = 0; x < roles.size(); ++x) {
      if (roles[x] != kNoNode) continue;
      if (x >= static_cast<std::size_t>(view.s)) {
        ++redundant;
      } else {
        absl::StrAppend(&coordinators, coordinators.empty() ? "" : ", ", "group=", g, " shard=", x);
      }
    }
  }
  if (!coordinators.empty()) {
    out->push_back(
        absl::StrCat("unavailable until a node joins, for want of a coordinator: ", coordinators));
  }
  if (redundant > 0) out->push_back(absl::StrCat("redundant roles without a node: ", redundant));
}

// By the shard's record everybody counts, with all values.
bool IsWhole(const View& view, const NormalRecord& normal, ShardId shard,
             const protocol::MemgestDescriptor& memgest) {
  const MemgestNormal* const set = normal.Find(memgest.id);
  return (set == nullptr || set->active_from.empty()) &&
         CompleteFor(normal, memgest, shard, view.s, view.d) ==
             MembersOf(memgest, shard, view.s, view.d);
}

// A shard that was never normal belongs to a cluster that starts.
void AddShards(const View& view, std::vector<std::string>* out) {
  int recovering = 0;
  std::map<std::string, int> unprotected;
  std::map<std::string, int> lost;
  for (const GroupView& group : view.groups) {
    for (std::size_t i = 0; i < group.shards.size(); ++i) {
      const NormalRecord& normal = group.shards[i].normal;
      recovering += normal.epoch.value() != 0 && normal.epoch < group.epoch ? 1 : 0;
      for (const protocol::MemgestDescriptor& memgest : view.memgests) {
        if (memgest.state == protocol::MemgestState::kDeleted || normal.epoch == Epoch()) continue;
        const ShardId shard(static_cast<std::uint16_t>(i));
        const MemgestNormal* const one = normal.Find(memgest.id);
        unprotected[memgest.name] += IsWhole(view, normal, shard, memgest) ? 0 : 1;
        lost[memgest.name] += one != nullptr && one->lost ? 1 : 0;
      }
    }
  }
  if (recovering > 0)
    out->push_back(absl::StrCat("shards that do not serve yet: shard_count=", recovering));
  for (const auto& [name, count] : unprotected) {
    if (count > 0) {
      out->push_back(
          absl::StrCat("memgest ", name, " is not fully protected: shard_count=", count));
    }
  }
  for (const auto& [name, count] : lost) {
    if (count > 0) {
      out->push_back(absl::StrCat(
          "memgest ", name, " lost values, more nodes than it survives: shard_count=", count));
    }
  }
}

void AddControl(const View& view, std::vector<std::string>* out) {
  const int control_f = (static_cast<int>(view.voter_count) - 1) / 2;
  const protocol::MemgestDescriptor* strongest = nullptr;
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state == protocol::MemgestState::kDeleted) continue;
    if (strongest == nullptr || memgest.FailuresTolerated() > strongest->FailuresTolerated()) {
      strongest = &memgest;
    }
  }
  if (strongest == nullptr || strongest->FailuresTolerated() <= control_f) return;
  out->push_back(absl::StrCat("voters=", view.voter_count, " decide while ", control_f,
                              " of them are lost, memgest ", strongest->name, " survives ",
                              strongest->FailuresTolerated(), " losses: have more voters"));
}

}  // namespace

absl::string_view StatusName(NodeStatus status) {
  switch (status) {
    case NodeStatus::kUp:
      return "up";
    case NodeStatus::kDown:
      return "down";
    case NodeStatus::kDraining:
      return "draining";
    case NodeStatus::kRemoved:
      return "removed";
  }
  return "unknown";
}

std::vector<std::string> HealthWarnings(const View& view) {
  std::vector<std::string> out;
  AddNodes(view, &out);
  AddVacancies(view, &out);
  AddShards(view, &out);
  AddControl(view, &out);
  return out;
}

}  // namespace ring::cluster
