#include "ring/recovery/epoch_change.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/log_retention.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/cluster/active_roles.h"
#include "ring/cluster/view.h"

namespace ring::recovery {
namespace {

// More than this is not kept at a coordinator: who lacks it needs a snapshot.
constexpr std::uint64_t kShippedMax = memgest::LogRetention::kShippedMax;
// How much rarer a call that fails is made again in the end.
constexpr std::uint64_t kRetryRarer = 16;

bool Vacant(const cluster::Holder& holder) { return holder.node == cluster::kNoNode; }

}  // namespace

EpochChange::EpochChange(EpochPlan plan, EpochActions* actions, const Timeouts& timeouts)
    : plan_(std::move(plan)), actions_(actions), timeouts_(timeouts), roles_(plan_.holders.size()) {
  if (!plan_.last.has_value()) return;
  RING_CHECK(plan_.last->holders.size() == roles_.size());
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const Role role = RoleAt(i);
    if (plan_.living && role == own_role()) {
      roles_[i].seal = Call::kDone;
      roles_[i].logs = plan_.own_logs;
    } else if (Has(plan_.reachable, role) && !Vacant(plan_.last->holders[i])) {
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
      if (const std::optional<Role> former = FormerHolderWithValues(); former.has_value())
        actions_->GiveBack(*former);
      return false;
  }
  RING_CHECK(false) << "phase=" << static_cast<int>(phase_);
}

// Soon at first; the longer a phase lasts the rarer: what its device or another's refuses (memory,
// queue pairs) may be refused for long.
std::uint64_t EpochChange::RetryNs() const {
  const std::uint64_t waited_ns = now_ns_ - phase_since_ns_;
  return now_ns_ + std::clamp(waited_ns / 4, timeouts_.retry_ns, timeouts_.retry_ns * kRetryRarer);
}

void EpochChange::Fail(Call* call, RoleState* role) {
  *call = Call::kRetry;
  role->retry_ns = RetryNs();
}

// Of a shard that is taken over nobody serves anything; of one whose coordinator lives, gets go on,
// and puts wait in either case. Members, and who takes over, work for the first kind first. Nothing
// is at stake: until it seals, a living coordinator is where it is while its seals are under way,
// and its members' rings stay as its last entry left them (E2, L5).
bool EpochChange::YieldsToTakeovers() const {
  if (sealing_ || !plan_.living || plan_.taking_over == 0) return false;
  return now_ns_ - phase_since_ns_ < timeouts_.yield_ns;
}

// Steps 2 to 4. All that the cluster believes to be there are waited for, quorums too: who is not
// sealed has to drop its state (step 7), and the cluster finds out soon who is not there. Who is
// demoted does so anyhow (E5): a coordinator that lives on waits for it only if it must. Nor does a
// silence cost what only a loss may: who is gone for all is so in the view.
bool EpochChange::AdvanceSealing() {
  if (YieldsToTakeovers()) return false;
  sealing_ = true;
  bool all = true;
  bool awaited = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (Due(role.seal, role)) {
      role.seal = Call::kAsked;
      actions_->Seal(RoleAt(i), plan_.last->holders[i]);
    }
    const bool settled = role.seal == Call::kDone || role.seal == Call::kGone;
    all &= settled;
    awaited &= settled || (plan_.living && Has(plan_.demoted, RoleAt(i)));
  }
  if (!awaited && !PatienceIsOver() && !Mutant("step3-wait")) return false;
  const RoleMask holders = HoldersOfLast();
  std::vector<LogMembers> members;
  std::vector<SealedRole> sealed;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    members.push_back({&memgest, ActiveInLast(memgest), holders & MembersOf(memgest)});
  }
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (roles_[i].seal == Call::kDone) sealed.push_back({RoleAt(i), roles_[i].logs});
  }
  adopted_ = Adopt(members, sealed,
                   plan_.living ? std::optional<Role>(own_role()) : std::optional<Role>());
  for (std::size_t i = 0; i < adopted_.size(); ++i)
    adopted_[i].lost &= plan_.last.has_value() && !NeverUsed(plan_.memgests[i]);
  DecideWhoGoesOn();
  MarkLostValues();
  const bool lost = LostTooMuch() && !Mutant("E8");
  if (!all && (lost || NeedsWhoIsSilent())) return false;  // they may still answer
  if (lost && LossAccepted() && !PatienceIsOver()) {
    const std::optional<Role> former = FormerHolderWithValues();
    if (former.has_value()) {  // what is not lost is not given up at once
      actions_->GiveBack(*former);
      return false;
    }
  }
  if (lost && !LossAccepted()) {
    Enter(Phase::kStopped);
    return true;
  }
  Enter(Phase::kFetching);
  return true;
}

bool EpochChange::LostTooMuch() const {
  return std::any_of(adopted_.begin(), adopted_.end(),
                     [](const AdoptedLog& log) { return log.lost; });
}

bool EpochChange::LossAccepted(const std::vector<MemgestId>& accepted) const {
  return std::all_of(adopted_.begin(), adopted_.end(), [&accepted](const AdoptedLog& log) {
    const bool named = std::find(accepted.begin(), accepted.end(), log.memgest) != accepted.end();
    return !log.lost || named || Mutant("E8-accepted");
  });
}

RoleMask EpochChange::MembersOf(const protocol::MemgestDescriptor& memgest) const {
  return cluster::MembersOf(memgest, plan_.shard, plan_.s, plan_.d);
}

RoleMask EpochChange::ActiveInLast(const protocol::MemgestDescriptor& memgest) const {
  if (!plan_.last.has_value()) return 0;
  return cluster::ActiveFor(*plan_.last, memgest, plan_.shard, plan_.s, plan_.d);
}

// Who was to hold it and is gone, maybe before it was made, took nothing of it along. G11: nobody
// wrote into a memgest before the state machine said that it is ACTIVE; nor could anybody (S13) as
// long as it is younger than the record and too few count for it.
bool EpochChange::NeverUsed(const protocol::MemgestDescriptor& memgest) const {
  if (memgest.state == protocol::MemgestState::kCreating) return true;
  if (!plan_.last.has_value() || plan_.last->Find(memgest.id) != nullptr) return false;
  return std::popcount(ActiveInLast(memgest)) < cluster::MembersMin(memgest);
}

// Who is ACTIVE for a memgest came with the metadata of all, and got the entries of all since: a
// parity that is not rebuilt yet has its log, too.
RoleMask EpochChange::HoldersOfLast() const {
  RoleMask active = 0;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) active |= ActiveInLast(memgest);
  return active;
}

// Who goes on from L if it is sealed: of ACTIVE(L), and of the same role now.
RoleMask EpochChange::MayGoOn() const {
  RoleMask members = 0;
  // Roles without any memgest that was used lack nothing.
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests)
    members |= NeverUsed(memgest) ? 0 : MembersOf(memgest);
  const RoleMask demoted = Mutant("E5-demoted") ? 0 : plan_.demoted;
  RoleMask same = 0;
  for (std::size_t i = 0; i < roles_.size(); ++i)
    same |= plan_.last->holders[i] == plan_.holders[i] ? RoleBit(RoleAt(i)) : 0;
  return (HoldersOfLast() | ~members) & ~demoted & same;
}

void EpochChange::DecideWhoGoesOn() {
  const RoleMask may = plan_.last.has_value() ? MayGoOn() : 0;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    const bool other = RoleAt(i) != own_role();
    if (other && !Vacant(plan_.holders[i])) role.link = Call::kIdle;
    if (!plan_.last.has_value()) {
      role.goes_on = !Vacant(plan_.holders[i]);  // empty logs: nothing to lack
      continue;
    }
    const bool sealed = role.seal == Call::kDone || Mutant("step7-silent");
    role.goes_on = sealed && Has(may, RoleAt(i));
  }
  at(own_role()).goes_on = true;
  at(own_role()).reappended = true;
  LetOneLeave();
  FindShortest();
}

std::uint64_t EpochChange::LackedBy(const RoleState& role, const AdoptedLog& adopted) {
  for (const LogEnd& log : role.logs) {
    if (log.memgest == adopted.memgest) return adopted.last - std::min(adopted.last, log.last);
  }
  return 0;
}

// What those that go on lack of logs that another had in full. Who lacks too much joins for all of
// them: it takes no room from the others, and is nobody's source.
void EpochChange::FindShortest() {
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    role.lacks_too_much = false;
    if (!role.goes_on || RoleAt(i) == own_role()) continue;
    std::uint64_t lacked = 0;
    for (const AdoptedLog& adopted : adopted_) lacked += LackedBy(role, adopted);
    role.lacks_too_much = lacked > kShippedMax;
    if (role.lacks_too_much) continue;
    for (AdoptedLog& adopted : adopted_)
      adopted.shortest = std::min(adopted.shortest, adopted.last - LackedBy(role, adopted));
  }
}

bool EpochChange::AdvanceFetching() {
  const bool nothing = plan_.living || !plan_.last.has_value();
  if (!nothing &&
      (fetch_ == Call::kIdle || (fetch_ == Call::kRetry && now_ns_ >= fetch_retry_ns_))) {
    fetch_ = Call::kAsked;
    actions_->Fetch(adopted_);
  }
  if (!nothing && fetch_ != Call::kDone) return false;
  begun_ = true;
  actions_->Begin(adopted_);
  Enter(Phase::kConnecting);
  return true;
}

void EpochChange::ConnectAll(bool joins) {
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (role.goes_on == joins || !Due(role.link, role)) continue;
    if (joins && JoinWaits(RoleAt(i))) continue;
    role.link = Call::kAsked;
    actions_->Connect(RoleAt(i), plan_.holders[i], joins);
  }
}

// Step 7: it drops what it has, once Normal does without it, and joins like anybody else.
void EpochChange::DropOut(Role role) {
  RoleState& state = at(role);
  state.goes_on = false;
  state.link = Call::kIdle;
  actions_->Disconnect(role);
}

bool EpochChange::AdvanceConnecting() {
  ConnectAll(/*joins=*/false);
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (!role.goes_on || RoleAt(i) == own_role() || role.link == Call::kDone) continue;
    if (PatienceIsOver()) GiveUp(RoleAt(i));
    all &= !role.goes_on;
  }
  if (!all) return false;
  Enter(Phase::kReappending);
  return true;
}

// Whether there is an outcome to be asked for. What this node has not got now, memory perhaps, is
// no fault of the member's: it is not dropped for it (F11).
bool EpochChange::BeginReappend(Role role) {
  RoleState& state = at(role);
  if (state.append == Call::kDone) return true;
  if (Due(state.append, state)) {
    const absl::Status status = actions_->Reappend(role, state.logs);
    if (status.ok() || Mutant("step5-kept")) {
      state.append = Call::kDone;
      return true;
    }
    if (absl::IsOutOfRange(status)) {
      state.append = Call::kGone;
      OnOutOfRange(role);
      return false;
    }
    Fail(&state.append, &state);
  }
  if (PatienceIsOver() && state.goes_on) actions_->Renew(role);
  return false;
}

// E2: what is adopted must be everywhere before anything is served from it. L4: a connection that
// ended is a hint, no loss: another epoch asks the member what it has. In a shard that was never
// Normal there is nothing to lose.
bool EpochChange::AdvanceReappending() {
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    if (!role.goes_on || role.reappended) continue;
    if (BeginReappend(RoleAt(i))) {
      const absl::StatusOr<bool> done = actions_->Reappended(RoleAt(i));
      role.reappended = done.ok() && (*done || Mutant("step5"));
      const bool drops = !plan_.last.has_value() || Mutant("step5-error");
      if (!done.ok() && drops) {
        DropOut(RoleAt(i));
      } else if (!role.reappended && PatienceIsOver()) {
        GiveUp(RoleAt(i));
      } else if (!done.ok()) {
        actions_->Renew(RoleAt(i));
      }
    }
    if (phase_ == Phase::kStopped) return false;
    all &= role.reappended || !role.goes_on;
  }
  if (!all) return false;
  Enter(Phase::kProposing);
  return true;
}

// A parity that was a learner of L has rows yet to be rebuilt (S6).
bool EpochChange::MayBeNamed(const protocol::MemgestDescriptor& memgest, std::size_t role) const {
  if (!roles_[role].goes_on || !roles_[role].reappended) return false;
  const bool coded = memgest.scheme == protocol::Scheme::kStretchedReedSolomon;
  const bool rebuilt = !plan_.last.has_value() || RoleAt(role) == own_role() ||
                       NeverUsed(memgest) || Has(ActiveInLast(memgest), RoleAt(role));
  return !coded || rebuilt;
}

// Of the epoch's first Normal.
cluster::MemgestNormal EpochChange::FirstSet(const protocol::MemgestDescriptor& memgest) const {
  cluster::MemgestNormal set;
  set.id = memgest.id;
  set.lost = set.records_lost = IsLost(memgest.id);
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (MayBeNamed(memgest, i)) set.active |= MembersOf(memgest) & RoleBit(RoleAt(i));
  }
  set.complete = set.active;
  if (!plan_.last.has_value()) return set;
  const RoleMask own = RoleBit(own_role());
  if (!plan_.living) set.complete &= ~own;
  const cluster::MemgestNormal* const before = plan_.last->Find(memgest.id);
  if (before != nullptr) set.complete &= CompleteInLast(memgest);
  if (IsEmpty(memgest)) set.complete |= own;  // nothing is still to come
  if (before == nullptr) return set;
  // X7: of who accepted the loss a later coordinator knows nothing else.
  set.records_lost |= before->records_lost && !plan_.records_settled && !Mutant("X7-later");
  for (const cluster::ActiveFrom& from : before->active_from) {
    if (Has(set.active, from.role)) set.active_from.push_back(from);
  }
  return set;
}

bool EpochChange::AdvanceProposing() {
  const bool overdue = now_ns_ - proposed_ns_ >= timeouts_.proposal_retry_ns;
  if (proposed_.empty() || overdue) {
    proposed_ns_ = now_ns_;
    proposed_.clear();
    for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
      proposed_.push_back(FirstSet(memgest));
    }
    actions_->Propose(proposed_);
    if (Mutant("step6")) actions_->Serve(proposed_);
  }
  return false;
}

void EpochChange::OnSealed(Role role, std::vector<LogEnd> logs, bool leaves) {
  const bool late = phase_ != Phase::kSealing || at(role).seal != Call::kAsked;
  if (late && !Mutant("step7-late")) return;
  at(role).seal = Call::kDone;
  at(role).logs = std::move(logs);
  at(role).leaves = leaves;
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
  if (!status.ok()) TakeNextSources();
  fetch_retry_ns_ = RetryNs();
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

void EpochChange::OnNormal(const std::vector<cluster::MemgestNormal>& sets) {
  if (phase_ != Phase::kProposing && phase_ != Phase::kServing) return;
  named_.memgests = sets;
  proposed_.clear();
  settled_ = false;
  may_have_news_ = true;
  if (phase_ == Phase::kProposing) {
    Enter(Phase::kServing);
    // Proposed before they were made.
    for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
      if (named_.Find(memgest.id) == nullptr) CountFromItsStart(memgest);
    }
  }
  actions_->Serve(named_.memgests);
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
    case Phase::kSealing:
      if (!sealing_) return absl::StrCat(where, "waits for shards that are taken over");
      return LostTooMuch() ? absl::StrCat(where, "waits for who has its values in another role")
                           : "";
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
