// What a view makes of a node: the shards it coordinates and those it is a member of.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/node/config/link_policy.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

bool HasAddress(const cluster::NodeInfo& node) {
  return !node.local_address.empty() || !node.shm_address.empty() || !node.tcp_address.empty() ||
         !node.rdma_address.empty();
}

bool SharesAddress(const cluster::NodeInfo& a, const cluster::NodeInfo& b) {
  const auto same = [](const std::string& one, const std::string& other) {
    return !one.empty() && one == other;
  };
  return same(a.local_address, b.local_address) || same(a.shm_address, b.shm_address) ||
         same(a.tcp_address, b.tcp_address) || same(a.rdma_address, b.rdma_address);
}

bool IsOthers(const cluster::View& view, NodeId id, const std::string& address) {
  return std::any_of(view.nodes.begin(), view.nodes.end(), [&](const cluster::NodeInfo& node) {
    return node.id != id && (node.tcp_address == address || node.shm_address == address ||
                             node.rdma_address == address || node.local_address == address);
  });
}

}  // namespace

// Of a choice that nothing forced it tells once, and again when it changes; within a process there
// is none.
std::string Node::AddressOf(const cluster::NodeInfo& peer) {
  const std::optional<Transport> policy = LinkPolicy(options_.config, options_.id, peer.id);
  LinkChoice choice;
  if (policy.has_value()) choice = ChooseLink(info_, peer, *policy);
  const bool told = peer.id != options_.id && peer.status != cluster::NodeStatus::kRemoved &&
                    peer.local_address.empty() && policy == Transport::kAuto;
  if (!told) return choice.address;
  told_links_.resize(std::max<std::size_t>(told_links_.size(), peer.id.value() + 1));
  const std::string by = choice.address.substr(0, choice.address.find(':'));
  std::string text = absl::StrCat(by.empty() ? "nothing" : by, " (", choice.why, ")");
  if (told_links_[peer.id.value()] != text) {
    RING_LOG(INFO) << "node=" << options_.id.value() << " reaches node=" << peer.id.value()
                   << " by " << text;
    told_links_[peer.id.value()] = std::move(text);
  }
  return choice.address;
}

// Of a node that was removed nothing is agreed upon any more. One of the configuration that is
// started again has to be reached all the same before it can register: where the configuration has
// it, unless somebody else is there by now.
std::string Node::ControlAddressOf(const cluster::NodeInfo& node) {
  const std::size_t id = node.id.value();
  if (node.status != cluster::NodeStatus::kRemoved || id >= contacts_.size())
    return AddressOf(node);
  cluster::NodeInfo contact = contacts_[id];
  contact.status = node.status;
  const std::string address = AddressOf(contact);
  return IsOthers(*view_, node.id, address) ? "" : address;
}

std::vector<std::string> Node::SetAddresses() {
  std::vector<std::string> addresses;
  std::vector<std::string> control;
  std::vector<std::string> fallbacks;
  std::vector<bool> awaited;
  for (const cluster::NodeInfo& node : view_->nodes) {
    addresses.push_back(AddressOf(node));
    control.push_back(ControlAddressOf(node));
    const std::optional<Transport> policy = LinkPolicy(options_.config, options_.id, node.id);
    fallbacks.push_back(policy.has_value() ? FallbackAddress(info_, node, *policy) : "");
    awaited.push_back(view_->IsAwaited(node.id));
  }
  control_->SetAddresses(std::move(control), std::move(awaited), std::move(fallbacks));
  if (words_ != nullptr) {
    std::vector<WordLinks::Peer> peers;
    for (const cluster::NodeInfo& node : view_->nodes)
      peers.push_back({addresses[node.id.value()], node.incarnation});
    words_->SetPeers(std::move(peers));
  }
  return addresses;
}

void Node::ApplyView(std::shared_ptr<const cluster::View> view) {
  view_ = std::move(view);
  encoded_view_.clear();
  clients_->SetView(*view_);
  // Members before coordinators: a memgest must be foldable before anything of it is appended
  // (G11).
  members_->ApplyView(*view_);
  if (routing_ == nullptr) {
    routing_ = std::make_unique<cluster::Routing>(view_->s, view_->d);
    by_group_.assign(static_cast<std::size_t>(view_->group_count()), nullptr);
  }
  for (const cluster::NodeInfo& node : view_->nodes)
    credits_->OnIncarnation(node.id, node.incarnation);
  const std::vector<std::string> addresses = SetAddresses();
  TakeRoles();
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) shard->ApplyView(view_, addresses);
  connecting_ = true;
  if (contacts_.empty()) StartMembership();
}

void Node::StartMembership() {
  contacts_ = view_->nodes;
  if (options_.propose) return;  // somebody else's state machine
  membership_->Start(contacts_[options_.id.value()]);
}

// What is agreed upon of where a node is: since it registered, or an operator added it there. Where
// nothing is, peers and clients go on with the configuration. That also says which hosts share
// memory, but not of a node that moved.
void Node::FillIn(cluster::NodeInfo* node) const {
  if (node->id.value() >= contacts_.size() || node->status == cluster::NodeStatus::kRemoved) return;
  const cluster::NodeInfo& contact = contacts_[node->id.value()];
  if (!HasAddress(*node)) {
    node->local_address = contact.local_address;
    node->shm_address = contact.shm_address;
    node->tcp_address = contact.tcp_address;
    node->rdma_address = contact.rdma_address;
    node->admin_address = contact.admin_address;
  }
  if (SharesAddress(*node, contact)) node->host = contact.host;
}

void Node::LearnContact(NodeId id, const std::string& tcp, const std::string& rdma) {
  if (id.value() >= contacts_.size()) return;
  cluster::NodeInfo& contact = contacts_[id.value()];
  const cluster::NodeInfo before = contact;
  if (!tcp.empty() && !IsOthers(*view_, id, tcp)) contact.tcp_address = tcp;
  if (!rdma.empty() && !IsOthers(*view_, id, rdma)) contact.rdma_address = rdma;
  if (id.value() >= view_->nodes.size()) return;  // of this file alone
  auto view = std::make_shared<cluster::View>(*view_);
  cluster::NodeInfo& node = view->nodes[id.value()];
  if (node.tcp_address == before.tcp_address) node.tcp_address = contact.tcp_address;
  if (node.rdma_address == before.rdma_address) node.rdma_address = contact.rdma_address;
  view_ = std::move(view);
  encoded_view_.clear();
  SetAddresses();
}

void Node::TakeAgreed(const std::shared_ptr<const cluster::View>& agreed) {
  // Shown by the leader before, with what came after it: who was registered then may be over.
  if (agreed->epoch < view_->epoch) return;
  for (const cluster::NodeInfo& node : agreed->nodes) {
    const bool away =
        node.status == cluster::NodeStatus::kDown || node.status == cluster::NodeStatus::kRemoved;
    control_->OnRegistered(node.id, node.incarnation, away);
  }
  if (agreed->epoch == view_->epoch) return;
  auto view = std::make_shared<cluster::View>(*agreed);
  for (cluster::NodeInfo& node : view->nodes) FillIn(&node);
  if (membership_->leads()) TellChanges(*view_, *view);
  ApplyView(std::move(view));
}

// What became of nodes; one of them tells it.
void Node::TellChanges(const cluster::View& before, const cluster::View& now) {
  for (const cluster::NodeInfo& node : now.nodes) {
    const bool known = node.id.value() < before.nodes.size();
    const cluster::NodeInfo old = known ? before.nodes[node.id.value()] : cluster::NodeInfo();
    const bool started = node.incarnation.value() != 0 && node.incarnation != old.incarnation;
    if (started) events_.Add(EventKind::kRegistered, node.id);
    if (known && node.status == old.status) continue;
    if (node.status == cluster::NodeStatus::kDown) {
      const bool added = node.incarnation.value() == 0;
      events_.Add(added ? EventKind::kAdded : EventKind::kFailed, node.id);
    }
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
    WakeOrForget(group, role);
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
  std::unique_ptr<CoordinatedShard> taken = std::move(*lost);
  shards_.erase(lost);
  if (!MayRest(*taken)) return Retire(std::move(taken));
  clients_->DropHeld(taken->coordinator());
  taken->Rest(*view_);
  resting_shards_.push_back(std::move(taken));
}

// What waits in it goes the way of what is held: it is captured an answer, none of these is said,
// and the connections that they were for end. So their clients send it again, and find what became
// of it (X1). No view may tell them to: the role may be back before they hear that it was gone.
void Node::Retire(std::unique_ptr<CoordinatedShard> shard) {
  shard->Retire();
  if (shard->coordinator() != nullptr) clients_->DropHeld(shard->coordinator());
  lost_shards_.push_back(std::move(shard));
}

// Without a spare the role of a node that was only silent stays vacant until it comes back. The
// shard's state is worth keeping till then: nobody else has all of it, of Rep(1) nobody has any.
//
// It may go on from it under the rule by which a coordinator lives through abandoned epochs (E7):
// the last Normal record L names this start of this node for the role, and the state is of a tenure
// that began no later than L. Entries commit only in an epoch that became Normal, and answers leave
// only from the coordinator that the last such record names. So in no epoch after L was anything
// accepted or answered by another one, and none of what this node accepted in L is missing here.
// Meanwhile it is as in the middle of an epoch change: its log is held, its links are gone, what
// was captured is dropped (V7: of a role that is vacant the lease says nothing). The members'
// rings of L are sealed, adopted and re-appended to in the next epoch as ever (steps 2 to 5).
// Once somebody else has the role, it is retired: the state may be out of date soon, and the other
// one has copies of what members have.
bool Node::MayRest(const CoordinatedShard& shard) const {
  const std::vector<NodeId>& roles = view_->groups[shard.group().value()].roles;
  return roles[shard.shard().value()] == cluster::kNoNode && shard.LivesOn(*view_);
}

// A node coordinates one shard of a group: with another role it goes on in that one.
void Node::WakeOrForget(GroupId group, std::optional<Role> role) {
  const auto found = std::find_if(resting_shards_.begin(), resting_shards_.end(),
                                  [group](const auto& shard) { return shard->group() == group; });
  if (found == resting_shards_.end()) return;
  const bool vacant =
      view_->groups[group.value()].roles[(*found)->shard().value()] == cluster::kNoNode;
  const bool returns = role.has_value() && role->value() == (*found)->shard().value();
  if (vacant && !role.has_value()) return;
  std::unique_ptr<CoordinatedShard> shard = std::move(*found);
  resting_shards_.erase(found);
  if (returns && shard->LivesOn(*view_)) {
    by_group_[group.value()] = shard.get();
    shards_.push_back(std::move(shard));
  } else {
    Retire(std::move(shard));
  }
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
