// Who has the values of a shard that changes its epoch: nobody is dropped who is needed for them,
// and a shard whose values nobody has stops, until somebody is back (E8).
#include <algorithm>
#include <bit>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/cluster/active_roles.h"
#include "ring/cluster/view.h"
#include "ring/recovery/epoch_change.h"

namespace ring::recovery {

// Nobody ever wrote into it.
bool EpochChange::IsEmpty(const protocol::MemgestDescriptor& memgest) const {
  return std::none_of(adopted_.begin(), adopted_.end(), [&memgest](const AdoptedLog& log) {
    return log.memgest == memgest.id && (log.last > 0 || log.lost);
  });
}

// Whether there are values that were promised to be kept.
bool EpochChange::ValuesCount(const protocol::MemgestDescriptor& memgest) const {
  return plan_.last.has_value() && memgest.FailuresTolerated() > 0 && !IsEmpty(memgest) &&
         !IsLost(memgest.id);
}

// Who has all values or blocks: as the record of L says, and as this node knows of itself. It may
// have got the last of them after that record.
RoleMask EpochChange::CompleteInLast(const protocol::MemgestDescriptor& memgest) const {
  const std::vector<MemgestId>& own = plan_.own_complete;
  const bool known = plan_.living && !Mutant("E8-own") &&
                     std::find(own.begin(), own.end(), memgest.id) != own.end();
  return cluster::CompleteFor(*plan_.last, memgest, plan_.shard, plan_.s, plan_.d) |
         (known ? RoleBit(own_role()) : 0);
}

// Who goes on and has all values or blocks, and does not drop them because it joins.
RoleMask EpochChange::SourcesOf(const protocol::MemgestDescriptor& memgest, RoleMask silent) const {
  RoleMask sources = silent | (plan_.living ? RoleBit(own_role()) : 0);
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const bool keeps = roles_[i].goes_on && !roles_[i].lacks_too_much;
    if (keeps && RoleAt(i) != own_role()) sources |= RoleBit(RoleAt(i));
  }
  return sources & MembersOf(memgest) & CompleteInLast(memgest);
}

// E8: entries without anybody who has their values are lost as well. Who has them and does not go
// on, as its role is another's by now, would drop them with Normal.
void EpochChange::MarkLostValues() {
  if (Mutant("E8-values")) return;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    if (!ValuesCount(memgest) || SourcesOf(memgest) != 0) continue;
    if (CompleteInLast(memgest) == 0) continue;
    for (AdoptedLog& log : adopted_) {
      if (log.memgest == memgest.id) log.lost = log.values_lost = true;
    }
  }
}

// E8: who has the values of what is lost, in a role that is another's by now. Where entries are
// lost as well its return would be of no use.
std::optional<Role> EpochChange::FormerHolderWithValues() const {
  if (!plan_.last.has_value() || Mutant("E8-return")) return std::nullopt;
  const bool entries_lost =
      std::any_of(adopted_.begin(), adopted_.end(),
                  [](const AdoptedLog& log) { return log.lost && !log.values_lost; });
  if (entries_lost) return std::nullopt;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    if (!IsLost(memgest.id)) continue;
    const RoleMask complete = MembersOf(memgest) & CompleteInLast(memgest);
    for (std::size_t i = 0; i < roles_.size(); ++i) {
      const bool former = plan_.last->holders[i] != plan_.holders[i];
      if (former && roles_[i].seal == Call::kDone && Has(complete, RoleAt(i))) return RoleAt(i);
    }
  }
  return std::nullopt;
}

// Who was to give a log does not, and may be cut off from this node alone: the next one that has as
// much is asked, by turns.
void EpochChange::TakeNextSources() {
  for (std::size_t i = 0; i < adopted_.size(); ++i) {
    AdoptedLog& log = adopted_[i];
    if (!log.source.has_value()) continue;
    const protocol::MemgestDescriptor& memgest = plan_.memgests[i];
    const RoleMask may = ActiveInLast(memgest) | (HoldersOfLast() & MembersOf(memgest));
    for (std::size_t step = 1; step < roles_.size(); ++step) {
      const Role next = RoleAt((log.source->value() + step) % roles_.size());
      if (at(next).seal != Call::kDone || !Has(may, next)) continue;
      const std::vector<LogEnd>& logs = at(next).logs;
      const auto end = std::find_if(logs.begin(), logs.end(), [&log](const LogEnd& one) {
        return one.memgest == log.memgest && one.last == log.last;
      });
      if (end == logs.end()) continue;
      log.source = next;
      log.applied = end->applied;
      break;
    }
  }
}

// Each shard of the group that lacks its blocks, this one too if it is taken over, is decoded with
// a parity of its own.
bool EpochChange::KeepsValues(const protocol::MemgestDescriptor& memgest, Role without,
                              RoleMask silent) const {
  if (!ValuesCount(memgest)) return true;
  const RoleMask sources = SourcesOf(memgest, silent);
  if (!Has(sources, without)) return true;
  const RoleMask left = sources & ~RoleBit(without);
  if (memgest.scheme == protocol::Scheme::kReplicated) return left != 0;
  const int own = Has(left, own_role()) ? 1 : 0;
  return std::popcount(left) - own >= plan_.absent_shards + 1 - own;
}

// S6: a parity that has to join another shard drops what it has of this one with its rows. One may,
// at a coordinator that lives on: of two that leave together nobody would be left beside it. What
// is coded is no reason to keep it: its rows may need the shard that it joins.
void EpochChange::LetOneLeave() {
  if (!plan_.living) return;
  // Nor does anybody leave whom another one's absence made the last beside it.
  const RoleMask may = plan_.last.has_value() ? MayGoOn() & HoldersOfLast() : 0;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (Has(may, RoleAt(i)) && !roles_[i].goes_on) return;
  }
  const auto keeps = [this](Role role) {
    return std::all_of(plan_.memgests.begin(), plan_.memgests.end(),
                       [this, role](const protocol::MemgestDescriptor& memgest) {
                         return memgest.scheme != protocol::Scheme::kReplicated ||
                                KeepsValues(memgest, role);
                       });
  };
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (!roles_[i].leaves || !roles_[i].goes_on || !keeps(RoleAt(i))) continue;
    roles_[i].goes_on = false;
    return;
  }
}

// Step 3: a coordinator that lives on has everything, and counts as one. With fewer than take new
// entries (S13) it would gain nothing but a record that names nobody else, and the others, who may
// be cut off from this node alone, would drop what they have for it.
bool EpochChange::KeepsEnough(const protocol::MemgestDescriptor& memgest, Role without,
                              RoleMask silent) const {
  if (!plan_.living || !ValuesCount(memgest)) return true;
  const RoleMask sources = SourcesOf(memgest, silent);
  const int least = std::min(cluster::MembersMin(memgest), std::popcount(sources));
  return std::popcount(sources & ~RoleBit(without)) >= least;
}

bool EpochChange::MayDoWithout(Role role, RoleMask silent) const {
  return std::all_of(plan_.memgests.begin(), plan_.memgests.end(),
                     [this, role, silent](const protocol::MemgestDescriptor& memgest) {
                       return KeepsValues(memgest, role, silent) &&
                              KeepsEnough(memgest, role, silent);
                     });
}

// Whether who did not answer yet has what those who did may not do without. Each is looked at by
// itself: of two parities of which one is needed, the first that answers is enough.
bool EpochChange::NeedsWhoIsSilent() const {
  const RoleMask may = plan_.last.has_value() ? MayGoOn() : 0;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const Role role = RoleAt(i);
    const bool settled = roles_[i].seal == Call::kDone || roles_[i].seal == Call::kGone;
    if (settled || role == own_role() || !Has(may, role)) continue;
    if (!MayDoWithout(role, RoleBit(role))) return true;
  }
  return false;
}

// It was silent for as long as one that lost its memory: it counts as such if that can be borne.
void EpochChange::GiveUp(Role role) {
  if (MayDoWithout(role) || Mutant("step5-error")) {
    at(role).given_up = true;
    DropOut(role);
  } else {
    actions_->Renew(role);
  }
}

// Who has all values and was silent, at its seal or behind it: it has them still, and can be sent
// what it lacks, as far as is known.
std::optional<Role> EpochChange::SilentWithValues(
    const protocol::MemgestDescriptor& memgest) const {
  const RoleMask complete = MembersOf(memgest) & CompleteInLast(memgest) & MayGoOn();
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const RoleState& role = roles_[i];
    const bool unsealed = role.seal == Call::kAsked || role.seal == Call::kRetry;
    const bool keeps = (role.given_up && !role.lacks_too_much) || unsealed;
    if (keeps && Has(complete, RoleAt(i))) return RoleAt(i);
  }
  return std::nullopt;
}

// Step 5: what it lacks is nowhere any more. If nobody else has what it has, that is lost (E8). Who
// was done without because this one was there is not to be done without now (L4), nor by a
// coordinator that lives on: it would be the only one that has anything (step 3, I2).
void EpochChange::OnOutOfRange(Role role) {
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    const bool enough = KeepsEnough(memgest, role) || Mutant("step3-alone");
    if (KeepsValues(memgest, role) && enough) continue;
    const std::optional<Role> keeper = SilentWithValues(memgest);
    if (keeper.has_value()) return actions_->Renew(*keeper);
  }
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    if (KeepsValues(memgest, role)) continue;
    for (AdoptedLog& log : adopted_) {
      if (log.memgest != memgest.id || log.lost) continue;
      log.lost = log.values_lost = true;  // its entries are here
    }
  }
  if (LostTooMuch() && !LossAccepted()) {
    stopped_by_ = role;
    Enter(Phase::kStopped);
  } else {
    DropOut(role);
  }
}

void EpochChange::OnAbsentShards(int absent_shards) {
  if (plan_.absent_shards == absent_shards) return;
  plan_.absent_shards = absent_shards;
  Advance();
}

bool EpochChange::AcceptLoss(std::vector<MemgestId> accepted) {
  RING_CHECK(phase_ == Phase::kStopped);
  if (!begun_) return false;
  plan_.accepted = std::move(accepted);
  DropOut(stopped_by_);
  Enter(Phase::kReappending);
  Advance();
  return true;
}

// A shard that stopped looks again, when one of those that it missed is there (E8). Who sealed and
// is gone has no log to be adopted any more; one that is being fetched from has to be replaced.
void EpochChange::OnReachable(RoleMask reachable) {
  if (!plan_.last.has_value()) return;
  const RoleMask came = reachable & ~plan_.reachable;
  const RoleMask went = plan_.reachable & ~reachable;
  plan_.reachable = reachable;
  if (phase_ == Phase::kFetching && !plan_.living) {
    for (const AdoptedLog& log : adopted_) {
      if (log.source.has_value() && Has(went, *log.source)) actions_->Renew(*log.source);
    }
  }
  if (phase_ != Phase::kSealing && phase_ != Phase::kStopped) return;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const RoleMask bit = RoleBit(RoleAt(i));
    if ((plan_.living && RoleAt(i) == own_role()) ||
        plan_.last->holders[i].node == cluster::kNoNode)
      continue;
    if ((went & bit) != 0) roles_[i].seal = Call::kGone;
    if ((came & bit) != 0) roles_[i].seal = Call::kIdle;
  }
  if (phase_ == Phase::kStopped && came != 0) {
    if (begun_) return actions_->Renew(RoleAt(static_cast<std::size_t>(std::countr_zero(came))));
    Enter(Phase::kSealing);
  }
  Advance();
}

}  // namespace ring::recovery
