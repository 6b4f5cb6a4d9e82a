#include "ring/node/coordinated_shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/log.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kUrgePeriodNs = 50'000'000;
}  // namespace

CoordinatedShard::CoordinatedShard(ShardContext* context, GroupId group, ShardId shard,
                                   std::size_t role_count, std::uint16_t first_writer_id,
                                   std::size_t index)
    : context_(context),
      group_(group),
      shard_(shard),
      index_(index),
      links_(&context->links, role_count, first_writer_id),
      joiners_(role_count),
      joined_behind_(role_count) {}

CoordinatedShard::~CoordinatedShard() {
  change_.reset();
  values_.reset();
  coordinator_.reset();  // its writers refer to the links
}

void CoordinatedShard::ApplyView(std::shared_ptr<const cluster::View> view,
                                 const std::vector<std::string>& addresses) {
  view_ = std::move(view);
  addresses_ = addresses;
  outdated_ = met_ > group_view().epoch;
  if (change_ == nullptr || change_->plan().epoch != group_view().epoch) {
    StartEpoch();
    return;
  }
  if (normal().epoch == group_view().epoch && !(normal() == applied_)) {
    applied_ = normal();
    change_->OnNormal(applied_.memgests);
  }
  ApplyCatalogue();
}

bool CoordinatedShard::WasReplaced(const cluster::View& view) const {
  const cluster::NormalRecord& last = view.groups[group_.value()].shards[shard_.value()].normal;
  return served_ && last.epoch != Epoch() &&
         last.holders[shard_.value()] != cluster::Holder{context_->node, context_->incarnation};
}

// A shard that was never Normal waits for everybody: nothing is there to be read meanwhile.
bool CoordinatedShard::EverybodyIsKnown() const {
  if (!context_->propose) return true;
  const cluster::GroupView& group = group_view();
  for (std::size_t role = 0; role < group.roles.size(); ++role) {
    const bool vacant = group.roles[role] == cluster::kNoNode;
    if (!vacant && group.incarnations[role] == Incarnation()) return false;
  }
  return true;
}

std::vector<protocol::MemgestDescriptor> CoordinatedShard::LivingMemgests() const {
  std::vector<protocol::MemgestDescriptor> memgests;
  for (const protocol::MemgestDescriptor& memgest : view_->memgests) {
    if (memgest.state != protocol::MemgestState::kDeleted) memgests.push_back(memgest);
  }
  return memgests;
}

recovery::EpochPlan CoordinatedShard::MakePlan() const {
  const cluster::GroupView& group = group_view();
  recovery::EpochPlan plan;
  plan.group = group_;
  plan.shard = shard_;
  plan.epoch = group.epoch;
  plan.s = view_->s;
  plan.d = view_->d;
  for (std::size_t role = 0; role < group.roles.size(); ++role)
    plan.holders.push_back({group.roles[role], group.incarnations[role]});
  plan.demoted = group.demoted;
  plan.memgests = LivingMemgests();
  const cluster::ShardView& shard = group.shards[shard_.value()];
  plan.overrun_allowed =
      view_->overrun == cluster::OverrunPolicy::kContinue || shard.overrun_epoch == group.epoch;
  if (shard.normal.epoch == Epoch()) return plan;
  plan.last = shard.normal;
  for (std::size_t role = 0; role < plan.last->holders.size(); ++role) {
    const cluster::Holder& holder = plan.last->holders[role];
    if (holder.node == cluster::kNoNode) continue;
    const cluster::NodeInfo& node = view_->nodes[holder.node.value()];
    const bool there =
        node.incarnation == holder.incarnation &&
        (node.status == cluster::NodeStatus::kUp || node.status == cluster::NodeStatus::kDraining);
    if (there) plan.reachable |= recovery::RoleBit(Role(static_cast<std::uint16_t>(role)));
  }
  plan.living =
      coordinator_ != nullptr &&
      plan.last->holders[shard_.value()] == cluster::Holder{context_->node, context_->incarnation};
  if (plan.living) plan.own_logs = OwnLogs();
  return plan;
}

std::vector<recovery::LogEnd> CoordinatedShard::OwnLogs() const {
  std::vector<recovery::LogEnd> logs;
  for (const std::unique_ptr<memgest::Memgest>& memgest : coordinator_->memgests()) {
    if (memgest == nullptr) continue;
    const std::uint64_t last = memgest->next_index() - 1;
    logs.push_back({memgest->descriptor().id, last, last});
  }
  return logs;
}

// The change of an epoch that was abandoned is forgotten: what it did counts for nothing (E7).
void CoordinatedShard::StartEpoch() {
  change_.reset();
  takeover_.reset();
  applied_ = {};
  urge_reason_.clear();
  for (Joiner& joiner : joiners_) joiner = Joiner();
  further_.clear();
  incomplete_ = false;
  if (!EverybodyIsKnown()) return;
  epoch_alive_ = std::make_shared<bool>(true);
  recovery::EpochPlan plan = MakePlan();
  if (plan.living) {
    coordinator_->BeginEpoch(plan.epoch);  // nothing is committed or told from here on
    if (values_ != nullptr) values_->EndEpoch();
  } else {
    values_.reset();  // adopted in an epoch that was abandoned
    coordinator_.reset();
    std::fill(joined_behind_.begin(), joined_behind_.end(), 0);
    active = false;  // nobody is there to act
  }
  BeginLinks();
  watch_ = Watch();
  Tell(EventKind::kEpochBegun);
  change_ = std::make_unique<recovery::EpochChange>(std::move(plan), this,
                                                    recovery::EpochChange::Timeouts());
}

void CoordinatedShard::Progress(std::uint64_t now_ns) {
  if (change_ != nullptr) change_->Step(now_ns);
  Urge(now_ns);
  if (!serving()) return;
  if (values_ != nullptr) values_->Progress(now_ns);
  ProgressJoins(now_ns);
  if (watch_.values) TellValues();
}

bool CoordinatedShard::OnEvent(const rdma::ConnectionEvent& event) {
  const LogLinks::News news = links_.OnEvent(event);
  if (news.outcome == LogLinks::Outcome::kNone) return false;
  if (news.outcome == LogLinks::Outcome::kConnected) {
    change_->OnConnected(news.role);
    return true;
  }
  last_error_ =
      absl::StrCat("node ", group_view().roles[news.role.value()].value(), ": ", news.error);
  if (news.outcome == LogLinks::Outcome::kFailed) {
    change_->OnConnectFailed(news.role);
    return true;
  }
  if (change_->OnLearnerLost(news.role)) return true;
  RING_LOG(WARNING) << "log connection lost group=" << group_.value() << " shard=" << shard_.value()
                    << " member_node=" << group_view().roles[news.role.value()].value();
  urge_reason_ = absl::StrCat("log connection of shard ", shard_.value(), " lost, ", last_error_);
  urge_ns_ = 0;
  return true;
}

// A connection is not made again within its epoch, so the epoch has to end. A proposal may be lost
// with its leader: it is made again until the applied state shows another epoch.
void CoordinatedShard::Urge(std::uint64_t now_ns) {
  if (urge_reason_.empty() || now_ns < urge_ns_ || !context_->propose) return;
  urge_ns_ = now_ns + kUrgePeriodNs;
  cluster::NewEpoch command;
  command.group = group_;
  command.expected = change_->plan().epoch;
  command.reason = urge_reason_;
  context_->propose(command);
}

bool CoordinatedShard::Meet(Epoch epoch) {
  met_ = std::max(met_, epoch);
  outdated_ = met_ > group_view().epoch;
  return outdated_;
}

void CoordinatedShard::ApplyCatalogue() {
  if (change_ != nullptr) change_->OnCatalogue(LivingMemgests());
  if (coordinator_ == nullptr) return;
  for (const protocol::MemgestDescriptor& descriptor : view_->memgests) {
    if (descriptor.state == protocol::MemgestState::kDeleted) {
      coordinator_->RemoveMemgest(descriptor.id);
    } else if (coordinator_->FindMemgest(descriptor.id) == nullptr) {
      const recovery::RoleMask counting =
          serving() ? recovery::ActiveFor(applied_, descriptor, change_->plan().memgests, shard_,
                                          view_->s, view_->d)
                    : 0;
      coordinator_->AddMemgest(descriptor, counting);
      memgest::MemberSet& members = coordinator_->FindMemgest(descriptor.id)->members();
      for (const coordinator::NamedSet& set : NamedBy(further_)) {
        if (set.memgest == descriptor.id) members.Propose(set.roles);
      }
    } else {
      coordinator_->SetMemgestState(descriptor.id, descriptor.state);
    }
  }
}

void CoordinatedShard::Retire() {
  change_.reset();
  takeover_.reset();
  epoch_alive_.reset();
  for (Joiner& joiner : joiners_) joiner = Joiner();
  values_.reset();
  if (coordinator_ != nullptr) {
    coordinator_->Retire(coordinator::Farewell::kSilence);
    coordinator_->AbandonValues();
  }
  links_.Begin({});
}

std::string CoordinatedShard::Missing() const {
  if (serving()) return "";
  const std::string where = change_ == nullptr
                                ? absl::StrCat("g", group_.value(), "/s", shard_.value(),
                                               " waits for nodes that were never heard of")
                                : change_->Waiting();
  return absl::StrCat(where, last_error_.empty() ? "" : ": ", last_error_);
}

}  // namespace ring::node
