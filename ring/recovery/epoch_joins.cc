// An epoch that is served: who joins it, and the further Normals that name them (L7).
#include <algorithm>
#include <bit>
#include <utility>

#include "ring/base/mutant.h"
#include "ring/cluster/active_roles.h"
#include "ring/recovery/epoch_change.h"

namespace ring::recovery {

// S6: 0, if it has all: nothing was used when its snapshot was taken, or the memgest is younger.
std::uint64_t EpochChange::ExtentOf(const RoleState& joined, MemgestId memgest) {
  for (const auto& [id, extent] : joined.parities) {
    if (id == memgest) return extent;
  }
  return 0;
}

// As the last Normal of the epoch says. A memgest that is younger than it is complete where it
// counts.
cluster::MemgestNormal EpochChange::PresentSet(const protocol::MemgestDescriptor& memgest) const {
  if (const cluster::MemgestNormal* const set = named_.Find(memgest.id); set != nullptr) {
    return *set;
  }
  cluster::MemgestNormal set;
  set.id = memgest.id;
  set.active = cluster::ActiveFor(named_, memgest, plan_.shard, plan_.s, plan_.d);
  set.complete = set.active;
  return set;
}

// One record names a role that joined for all memgests that it is a member of: the epoch may end
// with any record, and who counts for one memgest goes on in the next, and does not join again.
cluster::MemgestNormal EpochChange::SetToName(const protocol::MemgestDescriptor& memgest,
                                              cluster::MemgestNormal present) const {
  cluster::MemgestNormal set = std::move(present);
  const RoleMask members = MembersOf(memgest);
  const bool coded = memgest.scheme == protocol::Scheme::kStretchedReedSolomon;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    const RoleMask role = RoleBit(RoleAt(i));
    if (!roles_[i].joined || (members & ~set.active & role) == 0) continue;
    set.active |= role;
    if (!coded) continue;  // its values are still to come
    const std::uint64_t extent = ExtentOf(roles_[i], memgest.id);
    if (extent > 0) {
      set.active_from.push_back({RoleAt(i), extent});
    } else {
      set.complete |= role;
    }
  }
  if (Mutant("E6")) set.complete = set.active;
  for (const cluster::MemgestNormal& learned : learned_) {
    if (learned.id != memgest.id) continue;
    set.active |= learned.active;
    set.complete |= learned.complete & set.active;
  }
  std::erase_if(set.active_from,
                [&set](const cluster::ActiveFrom& from) { return Has(set.complete, from.role); });
  std::sort(set.active_from.begin(), set.active_from.end(),
            [](const auto& a, const auto& b) { return a.role < b.role; });
  return set;
}

// S13: too few count without it, so that something takes no entries.
bool EpochChange::IsNeeded(Role role) const {
  return std::any_of(plan_.memgests.begin(), plan_.memgests.end(),
                     [this, role](const protocol::MemgestDescriptor& memgest) {
                       if (!Has(MembersOf(memgest), role)) return false;
                       const RoleMask active = PresentSet(memgest).active;
                       return std::popcount(active) < cluster::MembersMin(memgest);
                     });
}

// Whom its node's other shards need more is not asked yet. It has nothing to lose (step 7), and
// nothing waits for it but protection: so for a while only, whatever becomes of those shards.
bool EpochChange::JoinWaits(Role role) const {
  if (!Has(plan_.taking_over, role)) return false;
  return now_ns_ - phase_since_ns_ < timeouts_.defer_ns && !IsNeeded(role);
}

void EpochChange::OnTakingOver(RoleMask taking_over) {
  if (plan_.taking_over == taking_over) return;
  plan_.taking_over = taking_over;
  Advance();
}

RoleMask EpochChange::Incomplete(const protocol::MemgestDescriptor& memgest) const {
  const cluster::MemgestNormal set = PresentSet(memgest);
  return set.active & ~set.complete;
}

// Whether there is anything that a further Normal has to name.
bool EpochChange::ProposeNews() {
  bool news = false;
  std::vector<cluster::MemgestNormal> sets;
  for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
    const cluster::MemgestNormal present = PresentSet(memgest);
    sets.push_back(SetToName(memgest, present));
    news |= !(sets.back() == present);
  }
  if (!news) return false;
  proposed_ = std::move(sets);
  proposed_ns_ = now_ns_;
  actions_->Propose(proposed_);
  return true;
}

// L7: a joiner counts once a further Normal of the epoch names it. What was proposed stays proposed
// until its outcome is known: it may be in the log of commands already.
void EpochChange::AdvanceJoins() {
  ConnectAll(/*joins=*/true);
  bool all = true;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    RoleState& role = roles_[i];
    all &= role.goes_on || role.link == Call::kGone;
    if (role.goes_on || role.link != Call::kDone || role.join == Call::kAsked) continue;
    role.join = Call::kAsked;
    actions_->Join(RoleAt(i), plan_.holders[i]);
  }
  bool news = false;
  if (proposed_.empty()) {
    news = std::exchange(may_have_news_, false) && ProposeNews();
  } else if (now_ns_ - proposed_ns_ >= timeouts_.proposal_retry_ns) {
    proposed_ns_ = now_ns_;
    actions_->Propose(proposed_);
  }
  settled_ = all && !news && !may_have_news_ && proposed_.empty();
}

void EpochChange::OnJoined(Role role, const absl::Status& status, ParityExtents parities) {
  RoleState& state = at(role);
  if (state.join != Call::kAsked) return;
  if (status.ok()) {
    state.join = Call::kDone;
    state.parities = std::move(parities);
    state.joined = state.goes_on = state.reappended = true;
    may_have_news_ = true;
  } else {
    BeginAgain(role);
  }
  Advance();
}

// Its ring is no snapshot's any more. A snapshot is not sent in a loop.
void EpochChange::BeginAgain(Role role) {
  RoleState& state = at(role);
  actions_->Disconnect(role);
  state.join = Call::kGone;
  state.link = Call::kRetry;
  state.retry_ns = now_ns_ + timeouts_.patience_ns;
  settled_ = false;
}

bool EpochChange::OnLearnerLost(Role role) {
  if (phase_ != Phase::kServing || at(role).goes_on) return false;
  BeginAgain(role);
  return true;
}

cluster::MemgestNormal& EpochChange::LearnedOf(MemgestId memgest) {
  settled_ = false;
  may_have_news_ = true;
  for (cluster::MemgestNormal& learned : learned_) {
    if (learned.id == memgest) return learned;
  }
  learned_.emplace_back().id = memgest;
  return learned_.back();
}

void EpochChange::OnComplete(Role role, MemgestId memgest) {
  const bool known = std::any_of(learned_.begin(), learned_.end(), [=](const auto& learned) {
    return learned.id == memgest && Has(learned.complete, role);
  });
  if (known) return;  // who tells goes on telling
  LearnedOf(memgest).complete |= RoleBit(role);
  Advance();
}

// Who goes on has had a ring since before the memgest was made: it has all of it. The record says
// so of who counts for another memgest; the others are named by the next one.
void EpochChange::CountFromItsStart(const protocol::MemgestDescriptor& memgest) {
  RoleMask have = 0;
  for (std::size_t i = 0; i < roles_.size(); ++i)
    have |= roles_[i].goes_on ? RoleBit(RoleAt(i)) : 0;
  have &= MembersOf(memgest) & ~PresentSet(memgest).active;
  if (have == 0) return;
  cluster::MemgestNormal& learned = LearnedOf(memgest.id);
  learned.active |= have;
  learned.complete |= have;
}

// Whom a change looks for is decided when it begins; it goes on with what came meanwhile.
void EpochChange::OnCatalogue(const std::vector<protocol::MemgestDescriptor>& memgests) {
  const auto known = [this](const protocol::MemgestDescriptor& memgest) {
    return std::any_of(
        plan_.memgests.begin(), plan_.memgests.end(),
        [&memgest](const protocol::MemgestDescriptor& one) { return one.id == memgest.id; });
  };
  if (phase_ == Phase::kServing) {
    for (const protocol::MemgestDescriptor& memgest : memgests) {
      if (!known(memgest)) CountFromItsStart(memgest);
    }
    plan_.memgests = memgests;
    may_have_news_ = true;
    return;
  }
  for (const protocol::MemgestDescriptor& memgest : memgests) {
    if (known(memgest) || Mutant("V2-made")) continue;
    plan_.memgests.push_back(memgest);
    // However far it has come: who would write into it serves first.
    plan_.memgests.back().state = protocol::MemgestState::kCreating;
  }
}

}  // namespace ring::recovery
