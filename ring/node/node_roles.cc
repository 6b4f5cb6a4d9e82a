// What a view makes of a node: the shards it coordinates and those it is a member of.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
}

// A node holds at most one role of a group (L10), so its shards are numbered by their groups.
void Node::TakeRoles() {
  for (std::size_t g = 0; g < by_group_.size(); ++g) {
    const GroupId group(static_cast<std::uint16_t>(g));
    const std::vector<NodeId>& roles = view_->groups[g].roles;
    const auto end = roles.begin() + view_->s;
    const auto mine = std::find(roles.begin(), end, options_.id);
    CoordinatedShard*& held = by_group_[g];
    if (held != nullptr && (mine == end || held->shard().value() != mine - roles.begin())) {
      LoseShard(held);
      held = nullptr;
    }
    if (mine == end || held != nullptr) continue;
    const ShardId shard(static_cast<std::uint16_t>(mine - roles.begin()));
    shards_.push_back(
        std::make_unique<CoordinatedShard>(&shard_context_, group, shard, role_count_,
                                           static_cast<std::uint16_t>(g * role_count_), g));
    held = shards_.back().get();
  }
}

// It answers nobody any more (V7). Answers on their way refer to its slots (V6), so it stays in
// memory.
void Node::LoseShard(CoordinatedShard* shard) {
  const auto lost = std::find_if(
      shards_.begin(), shards_.end(),
      [shard](const std::unique_ptr<CoordinatedShard>& one) { return one.get() == shard; });
  clients_->ForgetShard(shard->index());
  lost_shards_.push_back(std::move(*lost));
  shards_.erase(lost);
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

bool Node::ready() const { return Serving() && control_->ready(); }

std::string Node::Missing() const {
  if (view_ == nullptr) return absl::StrCat("node ", info_.name, " has no view");
  std::string missing;
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    const std::string links = shard->Missing();
    if (!links.empty()) absl::StrAppend(&missing, missing.empty() ? "" : "; ", links);
  }
  const std::string control = control_->Missing();
  if (!control.empty()) absl::StrAppend(&missing, missing.empty() ? "" : "; ", control);
  return missing;
}

}  // namespace ring::node
