// ring/recovery/adoption.h — which logs a new epoch goes on with.
//
// What:      Adopt: from the last Normal record's active sets and what sealed members answered, for
//            each memgest of a shard: enough answers or not, the longest log, and who holds it.
// Shape:     one decision a shard and epoch change; roles are those of the last Normal epoch L. All
//            answers are about the log of epoch L: lengths of different epochs are never compared.
// Ownership: values.
// Threads:   pure.
// Errors:    none: a log that cannot be adopted is told as such (E8), the caller decides.
// Source:    steps 2 to 4 of an epoch change; E1, E8; docs/GLOSSARY.md (commit rule).
#ifndef RING_RECOVERY_ADOPTION_H_
#define RING_RECOVERY_ADOPTION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "memgest/sealed_ring.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::recovery {

// Where a log of epoch L ends at one node: folded up to applied, valid up to last.
using LogEnd = memgest::SealedLog;

// What is known of one memgest's members in the last Normal.
struct LogMembers {
  const protocol::MemgestDescriptor* memgest = nullptr;
  RoleMask active = 0;  // ACTIVE(L), with the coordinator's role
  // Have the log of L, whether they count for it or not.
  RoleMask holders = 0;
};

// A role of L whose holder, in the same incarnation, was sealed and answered. A coordinator that
// lives on counts as one: its logs end at what it appended.
struct SealedRole {
  Role role;
  std::vector<LogEnd> logs;
};

struct AdoptedLog {
  MemgestId memgest;
  // Too few of ACTIVE(L) answered to know that nothing acknowledged is missing (E8). source and
  // last then say what the answers hold, for an operator who goes on without the rest.
  bool lost = false;
  bool values_lost = false;    // lost, but for its entries: nobody who goes on has their values
  std::optional<Role> source;  // none: the log starts empty
  std::uint64_t last = 0;
  // What the source had folded when it was sealed: it folds no more before this epoch is Normal.
  std::uint64_t applied = 0;
  // Every other member that goes on has the log up to here, or lacks so much that it joins.
  std::uint64_t shortest = 0;
};

// How many of ACTIVE(L), the coordinator among them if it lives, must have answered before the
// log's end is certain.
int AnswersNeeded(const protocol::MemgestDescriptor& memgest, RoleMask active);

// preferred: the source among equals, the coordinator's role if it lives, since nothing has to be
// copied then.
std::vector<AdoptedLog> Adopt(absl::Span<const LogMembers> memgests,
                              absl::Span<const SealedRole> sealed, std::optional<Role> preferred);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_ADOPTION_H_
