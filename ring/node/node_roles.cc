// What a view makes of a node: the shards it coordinates and those it is a member of.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/node/node.h"

namespace ring::node {

void Node::ApplyView(std::shared_ptr<const cluster::View> view) {
  view_ = std::move(view);
  encoded_view_ = cluster::EncodeView(*view_);
  clients_->set_view_epoch(view_->epoch);
  // Members before coordinators: a memgest must be foldable before anything of it is appended
  // (G11).
  members_->ApplyView(*view_);
  if (routing_ == nullptr) {
    routing_ = std::make_unique<cluster::Routing>(view_->s, view_->d);
    by_group_.assign(static_cast<std::size_t>(view_->group_count()), nullptr);
  }
  std::vector<std::string> addresses;
  for (const cluster::NodeInfo& node : view_->nodes) addresses.push_back(AddressOf(node));
  control_->SetAddresses(addresses);
  TakeRoles();
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) shard->ApplyView(view_, addresses);
  connecting_ = true;
  if (contacts_.empty()) StartMembership();
}

void Node::StartMembership() {
  contacts_ = view_->nodes;
  if (options_.propose) return;  // somebody else's state machine
  const absl::Status started = membership_->Start(contacts_[options_.id.value()]);
  RING_CHECK(started.ok()) << "consensus: " << started;
}

// Where a node listens is known before it registers: peers and clients go on with that. Which hosts
// share memory, each node's configuration says.
void Node::TakeAgreed(const std::shared_ptr<const cluster::View>& agreed) {
  for (const cluster::NodeInfo& node : agreed->nodes) {
    control_->OnRegistered(node.id, node.incarnation);
  }
  if (agreed->epoch <= view_->epoch) return;  // shown by the leader before
  auto view = std::make_shared<cluster::View>(*agreed);
  for (std::size_t i = 0; i < std::min(contacts_.size(), view->nodes.size()); ++i) {
    cluster::NodeInfo& node = view->nodes[i];
    if (node.incarnation.value() == 0) {
      const cluster::NodeStatus status = node.status;
      node = contacts_[i];
      node.incarnation = Incarnation();
      node.status = status;
    }
    node.host = contacts_[i].host;
  }
  if (membership_->leads()) TellChanges(*view_, *view);
  ApplyView(std::move(view));
}

// What became of nodes; one of them tells it.
void Node::TellChanges(const cluster::View& before, const cluster::View& now) {
  for (const cluster::NodeInfo& node : now.nodes) {
    const bool known = node.id.value() < before.nodes.size();
    const cluster::NodeInfo old = known ? before.nodes[node.id.value()] : cluster::NodeInfo();
    if (node.incarnation != old.incarnation) events_.Add(EventKind::kRegistered, node.id);
    if (known && node.status == old.status) continue;
    if (node.status == cluster::NodeStatus::kDown) events_.Add(EventKind::kFailed, node.id);
    if (node.status == cluster::NodeStatus::kDraining) events_.Add(EventKind::kDraining, node.id);
    if (node.status == cluster::NodeStatus::kRemoved) events_.Add(EventKind::kRemoved, node.id);
  }
}

void Node::MeetEpoch(GroupId group, Epoch epoch) {
  if (group.value() >= by_group_.size() || by_group_[group.value()] == nullptr) return;
  if (by_group_[group.value()]->Meet(epoch)) membership_->Refresh();
}

// A node holds at most one role of a group (L10), so its shards are numbered by their groups.
void Node::TakeRoles() {
  for (std::size_t g = 0; g < by_group_.size(); ++g) {
    const GroupId group(static_cast<std::uint16_t>(g));
    const std::optional<Role> role = view_->RoleOf(group, options_.id, info_.incarnation);
    const bool coordinates = role.has_value() && role->value() < view_->s;
    CoordinatedShard*& held = by_group_[g];
    const bool keeps = coordinates && held != nullptr && held->shard().value() == role->value() &&
                       !held->WasReplaced(*view_);
    if (held != nullptr && !keeps) {
      LoseShard(held);
      held = nullptr;
    }
    if (!coordinates || held != nullptr) continue;
    const ShardId shard(role->value());
    shards_.push_back(
        std::make_unique<CoordinatedShard>(&shard_context_, group, shard, role_count_,
                                           static_cast<std::uint16_t>(g * role_count_), g));
    held = shards_.back().get();
  }
}

// It answers nobody any more, not even what is captured (V7). Who keeps the role through an epoch
// change goes on to say what was: nobody else served meanwhile. Answers on their way refer to its
// slots (V6): it stays until they are done.
void Node::LoseShard(CoordinatedShard* shard) {
  const auto lost = std::find_if(
      shards_.begin(), shards_.end(),
      [shard](const std::unique_ptr<CoordinatedShard>& one) { return one.get() == shard; });
  clients_->ForgetShard(shard->index());
  if (shard->coordinator() != nullptr && !Mutant("V7")) clients_->DropHeld(shard->coordinator());
  (*lost)->Retire();
  lost_shards_.push_back(std::move(*lost));
  shards_.erase(lost);
}

void Node::ForgetLostShards() {
  std::erase_if(lost_shards_,
                [](const std::unique_ptr<CoordinatedShard>& shard) { return shard->gone(); });
}

CoordinatedShard* Node::FindShard(GroupId group, ShardId shard) {
  if (by_group_.empty()) return nullptr;
  CoordinatedShard* const held = by_group_[group.value()];
  return held != nullptr && held->shard() == shard ? held : nullptr;
}

CoordinatedShard* Node::ShardOfWriter(std::uint16_t writer_id) {
  const std::size_t group = writer_id / role_count_;
  return group < by_group_.size() ? by_group_[group] : nullptr;
}

bool Node::Serving() const {
  if (view_ == nullptr) return false;
  return std::all_of(
      shards_.begin(), shards_.end(),
      [](const std::unique_ptr<CoordinatedShard>& shard) { return shard->serving(); });
}

bool Node::ready() const {
  return Serving() && control_->ready() && (options_.propose || membership_->ready());
}

std::string Node::Missing() const {
  if (view_ == nullptr) return absl::StrCat("node ", info_.name, " has no view");
  std::string missing;
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    const std::string links = shard->Missing();
    if (!links.empty()) absl::StrAppend(&missing, missing.empty() ? "" : "; ", links);
  }
  const std::string control = control_->Missing();
  if (!control.empty()) absl::StrAppend(&missing, missing.empty() ? "" : "; ", control);
  const std::string membership = options_.propose ? "" : membership_->Missing();
  if (!membership.empty()) absl::StrAppend(&missing, missing.empty() ? "" : "; ", membership);
  return missing;
}

}  // namespace ring::node
