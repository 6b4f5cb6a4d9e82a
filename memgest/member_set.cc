#include "memgest/member_set.h"

#include <algorithm>

#include "ring/base/mutant.h"

namespace ring::memgest {

using protocol::CommitRule;
using protocol::Scheme;

MemberSet::MemberSet(const protocol::MemgestDescriptor& descriptor, std::vector<Role> roles)
    : all_needed_(descriptor.scheme == Scheme::kStretchedReedSolomon ||
                  descriptor.commit == CommitRule::kAll),
      quorum_(descriptor.AcksNeeded()) {
  for (const Role role : roles) members_.push_back({.role = role});
  const int count = static_cast<int>(members_.size());
  // One may be missing, but not the last one.
  named_min_ = all_needed_ ? std::min(count, std::max(1, count - 1)) : quorum_;
  SetActive(0);
}

int MemberSet::NeededOf(int named) const {
  if (named < named_min_ && !Mutant("S13")) return kNever;
  return all_needed_ ? named : quorum_;
}

Member* MemberSet::Find(Role role) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [role](const Member& member) { return member.role == role; });
  return found == members_.end() ? nullptr : &*found;
}

void MemberSet::DropWriters() {
  for (Member& member : members_) {
    member.writer = nullptr;
    member.behind = false;
  }
  SetActive(0);
}

void MemberSet::SetActive(RoleMask roles, RoleMask complete) {
  int named = 0;
  for (Member& member : members_) {
    member.active = Has(roles, member.role);
    member.complete = Has(roles & complete, member.role);
    named += member.active ? 1 : 0;
  }
  needed_ = NeededOf(named);
  EndProposal();
}

void MemberSet::EndProposal() {
  for (Member& member : members_) member.proposed = false;
  proposed_needed_ = 0;
}

void MemberSet::Propose(RoleMask roles) {
  if (Mutant("L7-joint")) return;
  int named = 0;
  for (Member& member : members_) {
    member.proposed = Has(roles, member.role);
    named += member.proposed ? 1 : 0;
  }
  proposed_needed_ = NeededOf(named);
}

bool MemberSet::Available() const {
  int able = 0;
  int proposed_able = 0;
  for (const Member& member : members_) {
    if (member.writer == nullptr || member.writer->broken()) continue;
    able += member.active ? 1 : 0;
    proposed_able += member.proposed ? 1 : 0;
  }
  return able >= needed_ && proposed_able >= proposed_needed_;
}

bool MemberSet::MayDoWithout(Role role, int count) const {
  bool counts = false;
  for (const Member& member : members_) {
    const bool able = member.complete && member.writer != nullptr && !member.writer->broken();
    if (member.role == role) {
      counts = member.active;
    } else {
      count -= able ? 1 : 0;
    }
  }
  return !counts || count <= 0;
}

bool MemberSet::BeingSent(std::uint64_t order) const {
  return std::any_of(members_.begin(), members_.end(), [order](const Member& member) {
    return member.writer != nullptr && !member.writer->broken() &&
           member.writer->acked_order() < order;
  });
}

}  // namespace ring::memgest
