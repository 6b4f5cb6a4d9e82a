// An epoch that is served: who joins it, and the further Normals that name them (L7).
#include <algorithm>
#include <utility>

#include "ring/recovery/epoch_change.h"

namespace ring::recovery {

// As the last Normal of the epoch says. A memgest that is younger than it is complete where it
// counts.
cluster::MemgestNormal EpochChange::PresentSet(const protocol::MemgestDescriptor& memgest) const {
  cluster::NormalRecord record;
  record.memgests = named_;
  if (const cluster::MemgestNormal* const set = record.Find(memgest.id); set != nullptr) {
    return *set;
  }
  cluster::MemgestNormal set;
  set.id = memgest.id;
  set.active = ActiveFor(record, memgest, plan_.memgests, plan_.shard, plan_.s, plan_.d);
  set.complete = set.active;
  return set;
}

cluster::MemgestNormal EpochChange::SetToName(const protocol::MemgestDescriptor& memgest) const {
  cluster::MemgestNormal set = PresentSet(memgest);
  const RoleMask members = MembersOf(memgest);
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (roles_[i].joined && MayBeNamed(memgest, i)) set.active |= members & RoleBit(RoleAt(i));
  }
  for (const cluster::MemgestNormal& learned : learned_) {
    if (learned.id != memgest.id) continue;
    set.active |= learned.active;
    set.complete |= learned.complete & set.active;
    for (const cluster::ActiveFrom& from : learned.active_from) {
      std::erase_if(set.active_from,
                    [&](const cluster::ActiveFrom& old) { return old.role == from.role; });
      if (from.extent > 0) set.active_from.push_back(from);
    }
  }
  std::erase_if(set.active_from, [&set](const cluster::ActiveFrom& from) {
    return (set.complete & RoleBit(from.role)) != 0;
  });
  std::sort(set.active_from.begin(), set.active_from.end(),
            [](const auto& a, const auto& b) { return a.role < b.role; });
  return set;
}

RoleMask EpochChange::Incomplete(const protocol::MemgestDescriptor& memgest) const {
  const cluster::MemgestNormal set = PresentSet(memgest);
  return set.active & ~set.complete;
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
    std::vector<cluster::MemgestNormal> sets;
    for (const protocol::MemgestDescriptor& memgest : plan_.memgests) {
      sets.push_back(SetToName(memgest));
      news |= !(sets.back() == PresentSet(memgest));
    }
    if (news) proposed_ = std::move(sets);
    proposed_ns_ = now_ns_;
    if (news) actions_->Propose(proposed_);
  } else if (now_ns_ - proposed_ns_ >= timeouts_.proposal_retry_ns) {
    proposed_ns_ = now_ns_;
    actions_->Propose(proposed_);
  }
  settled_ = all && !news && proposed_.empty();
}

void EpochChange::OnJoined(Role role, const absl::Status& status) {
  RoleState& state = at(role);
  if (state.join != Call::kAsked) return;
  if (status.ok()) {
    state.join = Call::kDone;
    state.joined = state.goes_on = state.reappended = true;
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
  for (cluster::MemgestNormal& learned : learned_) {
    if (learned.id == memgest) return learned;
  }
  learned_.emplace_back().id = memgest;
  return learned_.back();
}

void EpochChange::OnParityCounts(Role role, MemgestId memgest, std::uint64_t from_extent) {
  cluster::MemgestNormal& learned = LearnedOf(memgest);
  learned.active |= RoleBit(role);
  std::erase_if(learned.active_from,
                [role](const cluster::ActiveFrom& from) { return from.role == role; });
  learned.active_from.push_back({role, from_extent});
  Advance();
}

void EpochChange::OnComplete(Role role, MemgestId memgest) {
  LearnedOf(memgest).complete |= RoleBit(role);
  Advance();
}

// Whom a change looks for is decided when it begins; it goes on with what came meanwhile.
void EpochChange::OnCatalogue(const std::vector<protocol::MemgestDescriptor>& memgests) {
  if (phase_ == Phase::kServing) {
    plan_.memgests = memgests;
    return;
  }
  for (const protocol::MemgestDescriptor& memgest : memgests) {
    const bool known = std::any_of(
        plan_.memgests.begin(), plan_.memgests.end(),
        [&memgest](const protocol::MemgestDescriptor& one) { return one.id == memgest.id; });
    if (!known) plan_.memgests.push_back(memgest);
  }
}

}  // namespace ring::recovery
