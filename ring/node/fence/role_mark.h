// ring/node/fence/role_mark.h — how far a server knows who holds which role, in one word.
//
// What:      RoleMark: the last command that may change a role, who votes, and of which founding:
//            voters that all forgot everything are others, under the same numbers. RoleWord makes
//            the word of it that a voter shows and a coordinator expects. MayChangeRoles says which
//            commands count.
// Shape:     a command counts by its kind, whatever becomes of it: who persisted it cannot know
//            yet. A kind that is not known to leave roles alone counts.
// Ownership: a RoleMark borrows the list of voters.
// Threads:   pure.
// Errors:    none. A word is never 0: that is what a server shows that knows nothing.
// Cost:      RoleWord: a hash of 24 bytes and 8 a voter.
// Source:    rule L1, check; docs/adr/0019-fence.md.
#ifndef RING_NODE_FENCE_ROLE_MARK_H_
#define RING_NODE_FENCE_ROLE_MARK_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "consensus/types.h"

namespace ring::node {

struct RoleMark {
  consensus::LogIndex roles = 0;
  absl::Span<const consensus::ServerId> voters;  // empty: not known
  std::uint64_t founding = 0;                    // of the cluster (10.6); 0: none is agreed upon
};

// command: as it stands in the log.
bool MayChangeRoles(absl::string_view command);

// What this voter shows when it knows so much. The voter is in it: one that lost its memory is
// another, whatever it has been told since (10.6).
std::uint64_t RoleWord(consensus::ServerId voter, const RoleMark& mark);

}  // namespace ring::node

#endif  // RING_NODE_FENCE_ROLE_MARK_H_
