#include "tests/sim/protection.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "ring/cluster/active_roles.h"
#include "ring/recovery/adoption.h"

namespace ring::sim {
namespace {

class Look {
 public:
  explicit Look(SimCluster& cluster) : cluster_(cluster), view_(cluster.view()) {}

  std::vector<std::string> Take(
      absl::FunctionRef<bool(const protocol::MemgestDescriptor&)> excused) {
    for (const std::shared_ptr<SimNode>& node : cluster_.nodes()) LookAtNode(*node);
    for (std::size_t g = 0; g < view_.groups.size(); ++g) {
      const GroupId group(static_cast<std::uint16_t>(g));
      for (std::size_t i = 0; i < static_cast<std::size_t>(view_.s); ++i) {
        const ShardId shard(static_cast<std::uint16_t>(i));
        if (!LookAtShard(group, shard)) continue;
        for (const protocol::MemgestDescriptor& memgest : view_.memgests) {
          if (memgest.state != protocol::MemgestState::kDeleted && !excused(memgest))
            LookAtMemgest(group, shard, memgest);
        }
      }
    }
    return std::move(missing_);
  }

 private:
  // A process that is there has a part in the cluster, or may get one.
  void LookAtNode(SimNode& node) {
    if (!node.up()) return;
    if (node.info().id.value() >= view_.nodes.size())
      return Miss("the view knows ", node.info().name);
    const cluster::NodeInfo& known = view_.nodes[node.info().id.value()];
    if (known.status == cluster::NodeStatus::kRemoved) return;
    if (node.paused()) Miss(node.info().name, " goes on");
    if (known.status == cluster::NodeStatus::kDown || known.incarnation != node.info().incarnation)
      Miss("the view knows this start of ", node.info().name);
    if (!node.node().ready()) Miss(node.info().name, " is ready: ", node.node().Missing());
  }

  bool LookAtShard(GroupId group, ShardId shard) {
    const NodeId owner = view_.Coordinator(group, shard);
    if (owner == cluster::kNoNode) {
      if (view_.spare_count() > 0) Miss(Name(group, shard), " gets a coordinator");
      return false;
    }
    const bool serves = view_.IsNormal(group, shard) && cluster_.nodes()[owner.value()]->up() &&
                        ShardAt(owner, group, shard) != nullptr;
    if (!serves) Miss(Name(group, shard), " serves at node ", owner.value());
    return serves;
  }

  node::CoordinatedShard* ShardAt(NodeId owner, GroupId group, ShardId shard) {
    node::CoordinatedShard* const held =
        cluster_.nodes()[owner.value()]->node().FindShard(group, shard);
    return held != nullptr && held->serving() ? held : nullptr;
  }

  // Roles that somebody has, or could have.
  RoleMask Wanted(const protocol::MemgestDescriptor& memgest, GroupId group, ShardId shard) const {
    RoleMask wanted = cluster::MembersOf(memgest, shard, view_.s, view_.d);
    const std::vector<NodeId>& roles = view_.groups[group.value()].roles;
    for (std::size_t role = 0; role < roles.size(); ++role) {
      if (roles[role] == cluster::kNoNode && view_.spare_count() == 0)
        wanted &= ~(RoleMask{1} << role);
    }
    return wanted;
  }

  // E8: blocks or values of it are gone for good, and known to be: whoever reads them is told, and
  // parities that share rows with them are never whole again.
  bool IsGone(GroupId group, const protocol::MemgestDescriptor& memgest) {
    if (!cluster_.overran()) return false;
    for (std::uint16_t shard = 0; shard < view_.s; ++shard) {
      const NodeId owner = view_.Coordinator(group, ShardId(shard));
      if (owner == cluster::kNoNode || !cluster_.nodes()[owner.value()]->up()) continue;
      node::CoordinatedShard* const held = ShardAt(owner, group, ShardId(shard));
      if (held == nullptr) continue;
      const memgest::Memgest* const own = held->coordinator()->FindMemgest(memgest.id);
      if (own == nullptr) continue;
      if (own->lost_count != 0 || (own->coded() && own->allocator().lost_count() != 0)) return true;
    }
    return false;
  }

  void LookAtMemgest(GroupId group, ShardId shard, const protocol::MemgestDescriptor& memgest) {
    if (IsGone(group, memgest)) return;
    const cluster::NormalRecord& record = view_.groups[group.value()].shards[shard.value()].normal;
    RoleMask complete = cluster::CompleteFor(record, memgest, shard, view_.s, view_.d);
    const RoleMask active = cluster::ActiveFor(record, memgest, shard, view_.s, view_.d);
    std::map<std::size_t, std::uint64_t> extents;  // parities that lack what is below (S6)
    if (const cluster::MemgestNormal* const set = record.Find(memgest.id); set != nullptr) {
      for (const cluster::ActiveFrom& from : set->active_from) {
        complete &= ~RoleBit(from.role);
        extents[from.role.value()] = from.extent;
      }
    }
    const RoleMask wanted = Wanted(memgest, group, shard);
    const std::vector<NodeId>& roles = view_.groups[group.value()].roles;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const Role role(static_cast<std::uint16_t>(i));
      if ((wanted & RoleBit(role)) == 0) continue;
      const std::string state = i == shard.value() ? OwnState(group, shard, memgest)
                                                   : MemberState(group, shard, role, memgest);
      if ((complete & RoleBit(role)) != 0 && state.empty()) continue;
      Miss(Name(group, shard), " has all of ", memgest.name, " at role ", i, ", node ",
           static_cast<int>(roles[i].value()),
           (active & RoleBit(role)) == 0 ? ": not named" : ": named, without all values",
           extents.contains(i) ? absl::StrCat(" below extent ", extents[i]) : "", state);
    }
  }

  // What the coordinator itself lacks.
  std::string OwnState(GroupId group, ShardId shard, const protocol::MemgestDescriptor& memgest) {
    node::CoordinatedShard* const held = ShardAt(view_.Coordinator(group, shard), group, shard);
    const memgest::Memgest* const own = held->coordinator()->FindMemgest(memgest.id);
    if (own == nullptr) return ", which does not know it";
    std::string state;
    if (own->absent_count != 0)
      absl::StrAppend(&state, ", absent=", own->absent_count, " lost=", own->lost_count);
    if (own->coded() && own->allocator().lost_count() != 0)
      absl::StrAppend(&state, ", blocks lost=", own->allocator().lost_count());
    return state;
  }

  // ... and a member.
  std::string MemberState(GroupId group, ShardId shard, Role role,
                          const protocol::MemgestDescriptor& memgest) {
    const NodeId holder = view_.groups[group.value()].roles[role.value()];
    if (holder == cluster::kNoNode) return ", though there is a spare";
    if (!cluster_.nodes()[holder.value()]->up()) return ", which is down";
    node::MemberPort::HeldShard* const member =
        cluster_.nodes()[holder.value()]->node().members().Find(group, shard);
    if (member == nullptr || member->store == nullptr) return ", which has nothing of the shard";
    if (member->failed) return ", which refused an entry and begins again";
    const std::uint64_t absent = member->store->absent_count(memgest.id);
    return absent == 0 ? "" : absl::StrCat(", absent=", absent);
  }

  static std::string Name(GroupId group, ShardId shard) {
    return absl::StrCat("g", group.value(), "/s", shard.value());
  }
  template <typename... Parts>
  void Miss(const Parts&... parts) {
    missing_.push_back(absl::StrCat(parts...));
  }

  SimCluster& cluster_;
  const cluster::View& view_;
  std::vector<std::string> missing_;
};

}  // namespace

std::vector<std::string> Unprotected(
    SimCluster& cluster, absl::FunctionRef<bool(const protocol::MemgestDescriptor&)> excused) {
  return Look(cluster).Take(excused);
}

}  // namespace ring::sim
