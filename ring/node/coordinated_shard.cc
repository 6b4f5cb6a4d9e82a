#include "ring/node/coordinated_shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/cluster/active_roles.h"
#include "ring/cluster/demotion.h"
#include "ring/cluster/role_return.h"
#include "ring/protocol/limits.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kUrgePeriodNs = 50'000'000;
// All connections to who is gone end, but not all in the same turn.
constexpr std::uint64_t kAllEndNs = 20'000'000;
constexpr std::uint64_t kLagLookNs = 1'000'000;
constexpr std::uint64_t kAskTimeoutNs = 200'000'000;
// X4: nobody asks again for what is so old, and what is late on its way is far from so late.
constexpr std::uint64_t kRecordsSettleNs = 2 * protocol::kSilencePeriodNs;

// Whether its coordinator is another node, or another start of it, than its last Normal names, and
// its epoch has no Normal yet.
bool IsTakenOver(const cluster::GroupView& group, std::size_t shard) {
  const cluster::NormalRecord& normal = group.shards[shard].normal;
  if (normal.epoch == Epoch() || normal.epoch == group.epoch) return false;
  return group.roles[shard] != cluster::kNoNode &&
         normal.holders[shard] != cluster::Holder{group.roles[shard], group.incarnations[shard]};
}
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
      lags_(role_count),
      lag_patience_(role_count),
      demotion_check_(MakeAsk()),
      joined_behind_(role_count),
      progress_(role_count) {}

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
  if (change_ == nullptr || change_->plan().epoch != group_view().epoch || GoOnWithLoss()) {
    StartEpoch();
    return;
  }
  if (change_->plan().last.has_value()) {
    change_->OnAbsentShards(AbsentShards());
    change_->OnReachable(ReachableOf(*change_->plan().last));
  }
  change_->OnTakingOver(TakingOver());
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

// What was taken over in an epoch that was abandoned is no more than a copy of its metadata (E7).
bool CoordinatedShard::LivesOn(const cluster::View& view) const {
  const cluster::NormalRecord& last = view.groups[group_.value()].shards[shard_.value()].normal;
  return coordinator_ != nullptr && last.epoch != Epoch() && made_in_ <= last.epoch &&
         last.holders[shard_.value()] == cluster::Holder{context_->node, context_->incarnation};
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

// By an operator, who saw that it stopped in this epoch.
std::vector<MemgestId> CoordinatedShard::AcceptedLosses() const {
  const cluster::GroupView& group = group_view();
  const cluster::ShardView& shard = group.shards[shard_.value()];
  return shard.overrun_epoch == group.epoch ? shard.overrun : std::vector<MemgestId>();
}

// E8: it stopped in this epoch, and an operator accepts all that is lost. Gives whether the epoch
// begins again for that.
bool CoordinatedShard::GoOnWithLoss() {
  if (change_->phase() != recovery::EpochChange::Phase::kStopped) return false;
  std::vector<MemgestId> accepted = AcceptedLosses();
  return change_->LossAccepted(accepted) && !change_->AcceptLoss(std::move(accepted));
}

// Whom the cluster believes to be there, by role.
RoleMask CoordinatedShard::ReachableOf(const cluster::NormalRecord& last) const {
  RoleMask reachable = 0;
  for (std::size_t role = 0; role < last.holders.size(); ++role) {
    const cluster::Holder& holder = last.holders[role];
    if (holder.node == cluster::kNoNode) continue;
    const cluster::NodeInfo& node = view_->nodes[holder.node.value()];
    const bool there =
        node.incarnation == holder.incarnation &&
        (node.status == cluster::NodeStatus::kUp || node.status == cluster::NodeStatus::kDraining);
    if (there) reachable |= RoleBit(Role(static_cast<std::uint16_t>(role)));
  }
  return reachable;
}

// Other shards of the group that are taken over, or were and lack blocks yet.
int CoordinatedShard::AbsentShards() const {
  const cluster::GroupView& group = group_view();
  int absent = 0;
  for (std::size_t i = 0; i < group.shards.size(); ++i) {
    const cluster::NormalRecord& normal = group.shards[i].normal;
    if (i == shard_.value() || normal.epoch == Epoch()) continue;
    bool whole = normal.holders[i] == cluster::Holder{group.roles[i], group.incarnations[i]};
    for (const protocol::MemgestDescriptor& memgest : view_->memgests) {
      const cluster::MemgestNormal* const set = normal.Find(memgest.id);
      if (memgest.scheme == protocol::Scheme::kReplicated || set == nullptr) continue;
      if (memgest.state == protocol::MemgestState::kDeleted) continue;
      whole &= (set->complete >> i & 1) != 0;
    }
    absent += whole ? 0 : 1;
  }
  return absent;
}

// Holders of roles that have shards of their own to take over.
RoleMask CoordinatedShard::TakingOver() const {
  const std::vector<NodeId>& roles = group_view().roles;
  RoleMask taking_over = 0;
  for (const cluster::GroupView& group : view_->groups) {
    for (std::size_t i = 0; i < group.shards.size(); ++i) {
      if (!IsTakenOver(group, i)) continue;
      for (std::size_t role = 0; role < roles.size(); ++role) {
        if (roles[role] == group.roles[i])
          taking_over |= RoleBit(Role(static_cast<std::uint16_t>(role)));
      }
    }
  }
  return taking_over;
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
  plan.taking_over = TakingOver();
  plan.memgests = LivingMemgests();
  const cluster::ShardView& shard = group.shards[shard_.value()];
  plan.accepted = AcceptedLosses();
  plan.accepts_all = view_->overrun == cluster::OverrunPolicy::kContinue;
  if (shard.normal.epoch == Epoch()) return plan;
  // Step 2: whatever epochs were agreed upon and abandoned since, this set acknowledged entries.
  plan.last = shard.normal;
  if (Mutant("step2-newest")) plan.last->epoch = Epoch(plan.epoch.value() - 1);
  plan.reachable = ReachableOf(*plan.last);
  plan.absent_shards = AbsentShards();
  plan.living = LivesOn(*view_);
  if (!plan.living) return plan;
  plan.records_settled = RecordsSettled(*plan.last);
  plan.own_logs = OwnLogs();
  for (const std::unique_ptr<memgest::Memgest>& memgest : coordinator_->memgests()) {
    if (memgest != nullptr && HasAllValues(*memgest))
      plan.own_complete.push_back(memgest->descriptor().id);
  }
  return plan;
}

// X7: nobody asks again for what was lost before. A record that this coordinator never served by,
// as a later one came with it, says what it did not note.
bool CoordinatedShard::RecordsSettled(const cluster::NormalRecord& last) const {
  const bool noted =
      std::all_of(last.memgests.begin(), last.memgests.end(), [this](const auto& memgest) {
        return !memgest.records_lost || coordinator_->LostRecordsOf(memgest.id);
      });
  return noted && now_ns_ - records_lost_ns_ >= kRecordsSettleNs;
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
void CoordinatedShard::EndEpoch() {
  links_.Break();
  change_.reset();
  building_.reset();
  takeover_.reset();
  epoch_alive_.reset();
  applied_ = {};
  urge_reason_.clear();
  urge_since_ns_ = urge_ns_ = 0;
  urged_by_ = 0;
  to_return_.reset();
  told_return_ = false;
  for (Joiner& joiner : joiners_) joiner = Joiner();
  std::fill(lags_.begin(), lags_.end(), LagWatch());
  std::fill(progress_.begin(), progress_.end(), recovery::JoinProgress());
  further_.clear();
  incomplete_ = false;
}

// Its members' rings are left as they are: who seals them finds what it sent.
void CoordinatedShard::Rest(const cluster::View& view) {
  EndEpoch();
  coordinator_->BeginEpoch(view.groups[group_.value()].epoch);
  if (values_ != nullptr) values_->EndEpoch();
  links_.Begin({});
  active = false;
}

void CoordinatedShard::StartEpoch() {
  EndEpoch();
  if (!EverybodyIsKnown()) return;
  epoch_alive_ = std::make_shared<bool>(true);
  recovery::EpochPlan plan = MakePlan();
  if (plan.living) {
    coordinator_->BeginEpoch(plan.epoch);  // nothing is committed or told from here on
    if (values_ != nullptr) values_->EndEpoch();
  } else {
    values_.reset();  // adopted in an epoch that was abandoned
    coordinator_.reset();
    made_in_ = plan.epoch;
    std::fill(joined_behind_.begin(), joined_behind_.end(), 0);
    active = false;  // nobody is there to act
  }
  BeginLinks();
  watch_ = Watch();
  Tell(EventKind::kEpochBegun);
  change_ = std::make_unique<recovery::EpochChange>(std::move(plan), this, context_->timeouts);
}

void CoordinatedShard::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (building_ != nullptr) GoOnTakingOver();
  // The word may have come before it stopped once more.
  if (change_ != nullptr && GoOnWithLoss()) StartEpoch();
  to_return_.reset();  // it is asked again if it is still so
  if (change_ != nullptr) change_->Step(now_ns);
  Urge(now_ns);
  ProposeReturn(now_ns);
  if (!serving()) return;
  if (values_ != nullptr) values_->Progress(now_ns);
  ProgressJoins(now_ns);
  DemoteWhoLags(now_ns);
  AskForVersions(now_ns);
  if (watch_.values) TellValues();
}

// E5: who counts and does not keep up is waited for when the log is full. It is not, for longer
// than lag_ns, if the others can do without it: then they go on, and it joins again.
void CoordinatedShard::DemoteWhoLags(std::uint64_t now_ns) {
  if (context_->lag_ns == 0 || !context_->propose || now_ns - lag_look_ns_ < kLagLookNs) return;
  lag_look_ns_ = now_ns;
  memgest::ShardLog& log = coordinator_->log();
  for (const memgest::ShardLog::Link& link : log.links()) {
    const memgest::LogWriter& writer = *link.writer;
    // A learner that falls behind keeps nobody waiting.
    if ((link.behind && !log.Counts(link.role)) || writer.broken()) continue;
    LagWatch::Member member;
    member.order = writer.last_order();
    member.acked_order = writer.acked_order();
    member.position = writer.position();
    member.told_position = writer.shared_position();
    member.folded_position = writer.LookAtFolded();
    member.ring_size = writer.ring_size();
    member.holds_up = log.IsHeldUpBy(link.role);
    LagPatience& patience = lag_patience_[link.role.value()];
    const std::uint64_t limit_ns = patience.Of(context_->lag_ns, now_ns);
    if (!lags_[link.role.value()].Look(member, now_ns, limit_ns)) continue;
    if (now_ns < urge_ns_) continue;
    const RoleMask role = RoleBit(link.role);
    if (!cluster::CheckDemotion(*view_, group_, role).ok()) continue;
    if (!demotion_check_.Look(*view_, group_, role, now_ns)) continue;
    RING_LOG(WARNING) << "group=" << group_.value() << " shard=" << shard_.value()
                      << " member_node=" << group_view().roles[link.role.value()].value()
                      << " lags, a new epoch without it is proposed";
    urge_ns_ = now_ns + kUrgePeriodNs;
    patience.OnProposed(now_ns);
    cluster::NewEpoch command;
    command.group = group_;
    command.expected = change_->plan().epoch;
    command.demoted = role;
    command.reason = absl::StrCat("role ", link.role.value(), " lags");
    context_->propose(command);
  }
}

DemotionCheck::Ask CoordinatedShard::MakeAsk() {
  return
      [control = context_->control](NodeId node, const recovery::ProgressRequest& request,
                                    absl::AnyInvocable<void(const DemotionCheck::Answer&)> done) {
        control->Call(node, ControlType::kProgress, recovery::EncodeProgressRequest(request),
                      kAskTimeoutNs,
                      [done = std::move(done)](const absl::StatusOr<std::string>& bytes) mutable {
                        done(bytes.ok() ? recovery::DecodeProgressAnswer(*bytes)
                                        : DemotionCheck::Answer(bytes.status()));
                      });
      };
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
  urged_by_ |= RoleBit(news.role);
  return true;
}

// Who is gone for all is soon failed, and that begins an epoch without it. To begin one earlier
// would be worse than to wait: it would ask the lost one to seal, and serve nothing meanwhile,
// while now gets go on, and puts that can do without it.
bool CoordinatedShard::MayYetFail(std::uint64_t now_ns) const {
  const std::uint64_t waited_ns = now_ns - urge_since_ns_;
  if (waited_ns < kAllEndNs) return true;
  if (waited_ns >= context_->timeouts.patience_ns) return false;
  const std::vector<NodeId>& roles = group_view().roles;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const bool lost = Has(urged_by_, Role(static_cast<std::uint16_t>(i)));
    if (lost && context_->control->connected(roles[i])) return false;
  }
  return true;
}

// A connection is not made again within its epoch, so the epoch has to end. A proposal may be lost
// with its leader: it is made again until the applied state shows another epoch.
void CoordinatedShard::Urge(std::uint64_t now_ns) {
  if (urge_reason_.empty() || now_ns < urge_ns_ || !context_->propose) return;
  if (urge_since_ns_ == 0) urge_since_ns_ = now_ns;
  if (!MayYetFail(now_ns)) ProposeEpoch(now_ns, urge_reason_);
}

// E8: the shard serves nothing meanwhile, and CheckReturn lets the others keep what they have.
void CoordinatedShard::ProposeReturn(std::uint64_t now_ns) {
  if (!to_return_.has_value() || now_ns < urge_ns_ || !context_->propose) return;
  urge_ns_ = now_ns + kUrgePeriodNs;
  const Role role = *std::exchange(to_return_, std::nullopt);
  const absl::Status may = cluster::CheckReturn(*view_, group_, shard_, role);
  if (!may.ok()) {
    last_error_ = std::string(may.message());
    return;
  }
  if (!std::exchange(told_return_, true)) {
    RING_LOG(WARNING) << "group=" << group_.value() << " shard=" << shard_.value()
                      << " stopped, and node " << normal().holders[role.value()].node.value()
                      << " has its values: it is to have role=" << role.value() << " back";
  }
  context_->propose(cluster::ReturnRole{group_, shard_, change_->plan().epoch, role});
}

// V1: counters begin anew in a new epoch, and versions are higher all the same. Static membership
// has one epoch: it ends with the last counter, when puts are refused.
void CoordinatedShard::AskForVersions(std::uint64_t now_ns) {
  if (!coordinator_->versions_run_out() || now_ns < urge_ns_ || !context_->propose) return;
  if (!Mutant("V1-ask"))
    ProposeEpoch(now_ns, absl::StrCat("versions of shard ", shard_.value(), " run out"));
}

void CoordinatedShard::ProposeEpoch(std::uint64_t now_ns, std::string reason) {
  urge_ns_ = now_ns + kUrgePeriodNs;
  cluster::NewEpoch command;
  command.group = group_;
  command.expected = change_->plan().epoch;
  command.reason = std::move(reason);
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
  coordinator_->SetWeakPast(view_->weak_past);
  for (const protocol::MemgestDescriptor& descriptor : view_->memgests) {
    if (descriptor.state == protocol::MemgestState::kDeleted) {
      coordinator_->RemoveMemgest(descriptor.id);
    } else if (coordinator_->FindMemgest(descriptor.id) == nullptr) {
      const RoleMask counting =
          serving() ? cluster::ActiveFor(applied_, descriptor, shard_, view_->s, view_->d) : 0;
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
  links_.Break();
  change_.reset();
  building_.reset();
  takeover_.reset();
  epoch_alive_.reset();
  for (Joiner& joiner : joiners_) joiner = Joiner();
  values_.reset();
  if (coordinator_ != nullptr) {
    coordinator_->Retire();
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
