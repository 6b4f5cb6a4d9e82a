#include "ring/recovery/epoch_change.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/cluster/view.h"

namespace ring::recovery {
namespace {

RoleMask MemberMask(const protocol::MemgestDescriptor& memgest, ShardId shard, int s, int d) {
  RoleMask mask = RoleBit(Role(shard.value()));
  for (const Role role : memgest.MemberRoles(shard, s, d)) mask |= RoleBit(role);
  return mask;
}

bool Vacant(const cluster::Holder& holder) { return holder.node == cluster::kNoNode; }

}  // namespace

RoleMask ActiveFor(const cluster::NormalRecord& normal, const protocol::MemgestDescriptor& memgest,
                   absl::Span<const protocol::MemgestDescriptor> memgests, ShardId shard, int s,
                   int d) {
  if (const cluster::MemgestNormal* const set = normal.Find(memgest.id); set != nullptr) {
    return set->active;
  }
  RoleMask active = MemberMask(memgest, shard, s, d);
  for (const protocol::MemgestDescriptor& other : memgests) {
    const cluster::MemgestNormal* const set = normal.Find(other.id);
    if (set != nullptr) active &= ~(MemberMask(other, shard, s, d) & ~set->active);
  }
  return active;
}

RoleMask CompleteFor(const cluster::NormalRecord& normal,
                     const protocol::MemgestDescriptor& memgest,
                     absl::Span<const protocol::MemgestDescriptor> memgests, ShardId shard, int s,
                     int d) {
  const cluster::MemgestNormal* const set = normal.Find(memgest.id);
  return set != nullptr ? set->complete : ActiveFor(normal, memgest, memgests, shard, s, d);
}

EpochChange::EpochChange(EpochPlan plan, EpochActions* actions, const Timeouts& timeouts)
    : plan_(std::move(plan)), actions_(actions), timeouts_(timeouts), roles_(plan_.holders.size()) {
  if (!plan_.last.has_value()) return;
  RING_CHECK(plan_.last->holders.size() == roles_.size());
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const Role role = RoleAt(i);
    if (plan_.living && role == own_role()) {
      roles_[i].seal = Call::kDone;
      roles_[i].logs = plan_.own_logs;
    } else if ((plan_.reachable & RoleBit(role)) != 0 && !Vacant(plan_.last->holders[i])) {
      roles_[i].seal = Call::kIdle;
    }
  }
}

void EpochChange::Step(std::uint64_t now_ns) {
  if (now_ns_ == 0) phase_since_ns_ = now_ns;
  now_ns_ = now_ns;
  if (!settled_) Advance();
}

void EpochChange::Enter(Phase phase) {
  phase_ = phase;
  phase_since_ns_ = now_ns_;
  actions_->Entered(phase);
}

// Actions may answer from within the call that asked for them: what is told meanwhile is looked at
// in the next round.
void EpochChange::Advance() {
  if (advancing_ || now_ns_ == 0) return;
  advancing_ = true;
  while (AdvanceOnce()) {
  }
  advancing_ = false;
}

bool EpochChange::AdvanceOnce() {
  switch (phase_) {
    case Phase::kSealing:
      return AdvanceSealing();
    case Phase::kFetching:
      return AdvanceFetching();
    case Phase::kConnecting:
      return AdvanceConnecting();
    case Phase::kReappending:
      return AdvanceReappending();
    case Phase::kProposing:
      return AdvanceProposing();
    case Phase::kServing:
      AdvanceJoins();
      return false;
    case Phase::kStopped:
      return false;
  }
  RING_CHECK(false) << "phase=" << static_cast<int>(phase_);
}

void EpochChange::Fail(Call* call, RoleState* role) {
  *call = Call::kRetry;
  role->retry_ns = now_ns_ + timeouts_.retry_ns;
}

// Steps 2 to 4. All that the cluster believes to be there are waited for, quorums too: who is not
// sealed has to drop its state (step 7), and the cluster finds out soon who is not there.
bool EpochChange::AdvanceSealing() {
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (Due(role.seal, role)) {
      role.seal = Call::kAsked;
      actions_->Seal(RoleAt(i), plan_.last->holders[i]);
    }
    all &= role.seal == Call::kDone || role.seal == Call::kGone;
  }
  if (!all && !PatienceIsOver()) return false;
  std::vector<LogMembers> members;
  std::vector<SealedRole> sealed;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    members.push_back({&memgest, plan_.last.has_value()
                                     ? ActiveFor(*plan_.last, memgest, plan_.memgests, plan_.shard,
                                                 plan_.s, plan_.d)
                                     : 0});
  }
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (roles_[i].seal == Call::kDone) sealed.push_back({RoleAt(i), roles_[i].logs});
  }
  adopted_ = Adopt(members, sealed,
                   plan_.living ? std::optional<Role>(own_role()) : std::optional<Role>());
  if (!plan_.last.has_value()) {
    for (AdoptedLog& log : adopted_) log.lost = false;
  }
  if (LostTooMuch() && !plan_.overrun_allowed) {
    if (!all) return false;  // some may still answer
    Enter(Phase::kStopped);
    return false;
  }
  DecideWhoGoesOn();
  Enter(Phase::kFetching);
  return true;
}

bool EpochChange::LostTooMuch() const {
  return std::any_of(adopted_.begin(), adopted_.end(),
                     [](const AdoptedLog& log) { return log.lost; });
}

RoleMask EpochChange::MembersOf(const protocol::MemgestDescriptor& memgest) const {
  return MemberMask(memgest, plan_.shard, plan_.s, plan_.d);
}

void EpochChange::DecideWhoGoesOn() {
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    const RoleMask bit = RoleBit(RoleAt(i));
    const bool other = RoleAt(i) != own_role();
    if (other && !Vacant(plan_.holders[i])) role.link = Call::kIdle;
    if (!plan_.last.has_value()) {
      role.goes_on = !Vacant(plan_.holders[i]);  // empty logs: nothing to lack
      continue;
    }
    role.goes_on = role.seal == Call::kDone && plan_.last->holders[i] == plan_.holders[i] &&
                   std::all_of(plan_.memgests.begin(), plan_.memgests.end(),
                               [&](const protocol::MemgestDescriptor& memgest) {
                                 const RoleMask active =
                                     ActiveFor(*plan_.last, memgest, plan_.memgests, plan_.shard,
                                               plan_.s, plan_.d);
                                 return (MembersOf(memgest) & bit) == 0 || (active & bit) != 0;
                               });
  }
  at(own_role()).goes_on = true;
  at(own_role()).reappended = true;
}

bool EpochChange::AdvanceFetching() {
  const bool nothing = plan_.living || !plan_.last.has_value();
  if (!nothing &&
      (fetch_ == Call::kIdle || (fetch_ == Call::kRetry && now_ns_ >= fetch_retry_ns_))) {
    fetch_ = Call::kAsked;
    actions_->Fetch(adopted_);
  }
  if (!nothing && fetch_ != Call::kDone) return false;
  actions_->Begin(adopted_);
  Enter(Phase::kConnecting);
  return true;
}

void EpochChange::ConnectAll() {
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (!Due(role.link, role)) continue;
    role.link = Call::kAsked;
    actions_->Connect(RoleAt(i), plan_.holders[i], !role.goes_on);
  }
}

bool EpochChange::AdvanceConnecting() {
  ConnectAll();
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (!role.goes_on || RoleAt(i) == own_role() || role.link == Call::kDone) continue;
    // Step 7: it drops what it has and joins like anybody else.
    if (PatienceIsOver()) role.goes_on = false;
    all &= !role.goes_on;
  }
  if (!all) return false;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (!role.goes_on || RoleAt(i) == own_role()) continue;
    const absl::Status status = actions_->Reappend(RoleAt(i), role.logs);
    if (!status.ok()) role.goes_on = false;
  }
  Enter(Phase::kReappending);
  return true;
}

// E2: what is adopted must be everywhere before anything is served from it.
bool EpochChange::AdvanceReappending() {
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (!role.goes_on || role.reappended) continue;
    const absl::StatusOr<bool> done = actions_->Reappended(RoleAt(i));
    role.reappended = done.ok() && *done;
    if (!done.ok() || (!role.reappended && PatienceIsOver())) role.goes_on = false;
    all &= role.reappended || !role.goes_on;
  }
  if (!all) return false;
  Enter(Phase::kProposing);
  return true;
}

std::vector<cluster::MemgestNormal> EpochChange::SetsToName() const {
  RoleMask on = 0;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (roles_[i].goes_on && roles_[i].reappended) on |= RoleBit(RoleAt(i));
  }
  std::vector<cluster::MemgestNormal> sets;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    const RoleMask active = MembersOf(memgest) & on;
    RoleMask complete = active;
    if (plan_.last.has_value()) {
      const cluster::MemgestNormal* const before = plan_.last->Find(memgest.id);
      if (before != nullptr) complete &= before->complete;
      if (!plan_.living) complete &= ~RoleBit(own_role());
    }
    cluster::MemgestNormal set;
    set.id = memgest.id;
    set.active = active;
    set.complete = complete;
    for (const cluster::MemgestNormal& now : named_) {
      if (now.id != memgest.id) continue;
      set.complete = now.complete;
      set.active_from = now.active_from;
    }
    set.lost = IsLost(memgest.id);
    sets.push_back(std::move(set));
  }
  return sets;
}

bool EpochChange::AdvanceProposing() {
  const bool overdue = now_ns_ - proposed_ns_ >= timeouts_.proposal_retry_ns;
  if (proposed_.empty() || overdue) {
    proposed_ns_ = now_ns_;
    proposed_ = SetsToName();
    actions_->Propose(proposed_);
  }
  return false;
}

// L7: a joiner counts once a further Normal of the epoch names it.
void EpochChange::AdvanceJoins() {
  ConnectAll();
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    all &= role.goes_on || role.link == Call::kGone;
    if (role.goes_on || role.link != Call::kDone) continue;
    if (role.join == Call::kGone) role.join = Call::kIdle;
    if (!Due(role.join, role)) continue;
    role.join = Call::kAsked;
    actions_->Join(RoleAt(i), plan_.holders[i]);
  }
  const bool named = SetsToName() == named_;
  if (!named) AdvanceProposing();
  settled_ = all && named;
}

void EpochChange::OnSealed(Role role, std::vector<LogEnd> logs) {
  if (phase_ != Phase::kSealing || at(role).seal != Call::kAsked) return;  // too late (step 7)
  at(role).seal = Call::kDone;
  at(role).logs = std::move(logs);
  Advance();
}

void EpochChange::OnSealFailed(Role role, bool gone) {
  RoleState& state = at(role);
  if (state.seal != Call::kAsked) return;
  if (gone) {
    state.seal = Call::kGone;
  } else {
    Fail(&state.seal, &state);
  }
  Advance();
}

void EpochChange::OnFetched(const absl::Status& status) {
  if (fetch_ != Call::kAsked) return;
  fetch_ = status.ok() ? Call::kDone : Call::kRetry;
  fetch_retry_ns_ = now_ns_ + timeouts_.retry_ns;
  Advance();
}

void EpochChange::OnConnected(Role role) {
  if (at(role).link == Call::kAsked) at(role).link = Call::kDone;
  Advance();
}

void EpochChange::OnConnectFailed(Role role) {
  RoleState& state = at(role);
  if (state.link == Call::kAsked) Fail(&state.link, &state);
  Advance();
}

void EpochChange::OnCatalogue(absl::Span<const protocol::MemgestDescriptor> memgests) {
  if (phase_ == Phase::kServing || phase_ == Phase::kStopped) return;
  for (const protocol::MemgestDescriptor& memgest : memgests) {
    const bool known = memgest.state == protocol::MemgestState::kDeleted ||
                       std::any_of(plan_.memgests.begin(), plan_.memgests.end(),
                                   [&memgest](const protocol::MemgestDescriptor& one) {
                                     return one.id == memgest.id;
                                   });
    if (!known) plan_.memgests.push_back(memgest);
  }
}

void EpochChange::OnNormal(const std::vector<cluster::MemgestNormal>& sets) {
  if (phase_ != Phase::kProposing && phase_ != Phase::kServing) return;
  named_ = sets;
  proposed_.clear();
  settled_ = false;
  if (phase_ == Phase::kProposing) Enter(Phase::kServing);
  actions_->Serve(named_);
  Advance();
}

void EpochChange::OnJoined(Role role, const absl::Status& status) {
  RoleState& state = at(role);
  if (state.join != Call::kAsked) return;
  if (status.ok()) {
    state.join = Call::kDone;
    state.goes_on = true;
    state.reappended = true;
  } else {
    state.join = Call::kRetry;
    state.retry_ns = now_ns_ + timeouts_.patience_ns;  // a snapshot is not sent in a loop
  }
  Advance();
}

bool EpochChange::IsLost(MemgestId memgest) const {
  return std::any_of(adopted_.begin(), adopted_.end(), [memgest](const AdoptedLog& log) {
    return log.memgest == memgest && log.lost;
  });
}

std::vector<MemgestId> EpochChange::lost() const {
  std::vector<MemgestId> lost;
  for (const AdoptedLog& log : adopted_) {
    if (log.lost) lost.push_back(log.memgest);
  }
  return lost;
}

std::string EpochChange::Waiting() const {
  const std::string where = absl::StrCat("g", plan_.group.value(), "/s", plan_.shard.value(), " ");
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const RoleState& role = roles_[i];
    if (phase_ == Phase::kSealing && (role.seal == Call::kAsked || role.seal == Call::kRetry)) {
      return absl::StrCat(where, "waits for node ", plan_.last->holders[i].node.value(),
                          " to seal");
    }
    if (phase_ == Phase::kConnecting && role.goes_on && RoleAt(i) != own_role() &&
        role.link != Call::kDone) {
      return absl::StrCat(where, "to node ", plan_.holders[i].node.value(), " (connecting)");
    }
    if (phase_ == Phase::kReappending && role.goes_on && !role.reappended) {
      return absl::StrCat(where, "re-appends to node ", plan_.holders[i].node.value());
    }
  }
  switch (phase_) {
    case Phase::kFetching:
      return absl::StrCat(where, "fetches metadata");
    case Phase::kProposing:
      return absl::StrCat(where, "waits for its Normal record");
    case Phase::kStopped:
      return absl::StrCat(where, "stopped: too few members survived to know what was written");
    default:
      return "";
  }
}

}  // namespace ring::recovery
