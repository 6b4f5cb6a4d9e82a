// memgest/member_set.h — the members of one memgest in one shard, who of them counts, and the
// commit rule.
//
// What:      One place for each role that the descriptor names: its writer, if there is one, and
//            whether the shard's last Normal named it (active). A set that is proposed can stand
//            beside the active one: then an entry needs both (L7).
// Shape:     in the order of MemgestDescriptor::MemberRoles; the coordinator is counted apart. A
//            QUORUM needs its floor(r/2) others, however many are named. ALL and SRS need everyone
//            who is named, and of those at least max(1, r-2) and max(1, m-1): with fewer nothing
//            new is accepted (S13).
// Units:     orders as in shard_log.h.
// Ownership: borrows the writers.
// Threads:   one, the node's.
// Errors:    none.
// Cost:      Satisfied, AckedByAll: two loads and compares for each member.
// Source:    docs/GLOSSARY.md (commit rule); rules L7, S13; ADR 0008.
#ifndef RING_MEMGEST_MEMBER_SET_H_
#define RING_MEMGEST_MEMBER_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memgest/log_writer.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::memgest {

struct Member {
  Role role;
  LogWriter* writer = nullptr;  // null: the role is vacant, or not connected
  bool active = false;          // counts; a member that has a writer and does not is a learner
  bool complete = false;        // active, and has all values or blocks
  bool proposed = false;        // would count
  bool behind = false;          // gets its entries out of what is kept (ShardLog)
};

class MemberSet {
 public:
  MemberSet(const protocol::MemgestDescriptor& descriptor, std::vector<Role> roles);

  std::size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }
  std::vector<Member>::const_iterator begin() const { return members_.begin(); }
  std::vector<Member>::const_iterator end() const { return members_.end(); }
  const Member& operator[](std::size_t i) const { return members_[i]; }
  // Null: not a member.
  Member* Find(Role role);

  // The epoch ends; nobody counts before the next Normal.
  void DropWriters();
  // A Normal was applied: these roles count from now on. It ends a proposal. complete: of them,
  // have all values or blocks.
  void SetActive(RoleMask roles, RoleMask complete = kAllRoles);
  // A Normal was proposed, and its outcome is not known.
  void Propose(RoleMask roles);
  // It was refused.
  void EndProposal();

  // Whether enough members acknowledged the entry of this order.
  bool Satisfied(std::uint64_t order) const {
    int acks = 0;
    int proposed_acks = 0;
    for (const Member& member : members_) {
      if (member.writer == nullptr || member.writer->acked_order() < order) continue;
      acks += member.active ? 1 : 0;
      proposed_acks += member.proposed ? 1 : 0;
    }
    return acks >= needed_ && proposed_acks >= proposed_needed_;
  }
  // Nobody who has a writer lacks the entry: nothing refers to the bytes it was sent from.
  bool AckedByAll(std::uint64_t order) const {
    for (const Member& member : members_) {
      if (member.writer != nullptr && member.writer->acked_order() < order &&
          !member.writer->abandoned()) {
        return false;
      }
    }
    return true;
  }
  // Whether so many are named that new entries are accepted (S13).
  bool Enough() const { return needed_ < kNever && proposed_needed_ < kNever; }
  // ... and can be committed: enough of them have a writer that is not broken.
  bool Available() const;
  // Whether at least `count` others that count have all of it, and a connection.
  bool MayDoWithout(Role role, int count) const;
  // Whether the device may still read what was sent with this order.
  bool BeingSent(std::uint64_t order) const;

 private:
  static constexpr int kNever = 1 << 20;
  int NeededOf(int named) const;

  std::vector<Member> members_;
  bool all_needed_;  // of those named
  int quorum_;       // others that a quorum needs
  int named_min_;
  int needed_ = 0;           // acknowledgements; kNever: too few are named
  int proposed_needed_ = 0;  // 0: nothing is proposed
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_MEMBER_SET_H_
