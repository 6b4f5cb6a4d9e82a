// tests/sim/survival.h — which nodes a cluster can lose at this moment without loss.
//
// What:      Survival reads the last Normal records of a view: who of them is there still, who has
//            all entries (ACTIVE), who all values (complete). From that, and from what memgests
//            promise (f), it tells whether nothing acknowledged is lost if some nodes go, too.
// Shape:     SurvivesWith is a model of the promise (docs/GLOSSARY.md), not of what the code does
//            about it: as joins and decodes complete, records name more, and more may be lost
//            again. StaysStopped asks the product (CheckReturn), which its own tests judge.
// Ownership: borrows view and predicate for the call.
// Threads:   pure.
// Errors:    none.
// Source:    docs/GLOSSARY.md (f, ACTIVE, protected); step 3 of an epoch change; rule S7.
#ifndef RING_TESTS_SIM_SURVIVAL_H_
#define RING_TESTS_SIM_SURVIVAL_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "ring/cluster/view.h"

namespace ring::sim {

using IsThere = absl::FunctionRef<bool(const cluster::Holder&)>;

// there: this start of the node has its memory, and keeps it.
bool SurvivesWith(const cluster::View& view, IsThere there);
// missed: it has its memory as well, but its roles are another's by now. It may get back a
// redundant one in which it has values of replicated memgests (E8); for blocks, and what it
// coordinated, it counts as lost.
bool SurvivesWith(const cluster::View& view, IsThere there, IsThere missed);

// Some shard stopped, since nobody has all values of a replicated memgest in the role in which they
// count; and no role of it may go back to who held it, as others need those who have them now
// (docs/RECOVERY.md, "Known weaknesses").
bool StaysStopped(const cluster::View& view);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SURVIVAL_H_
