// tests/sim/survival.h — which nodes a cluster can lose at this moment without loss.
//
// What:      Survival reads the last Normal records of a view: who of them is there still, who has
//            all entries (ACTIVE), who all values (complete). From that, and from what memgests
//            promise (f), it tells whether nothing acknowledged is lost if some nodes go, too.
// Shape:     a model of the promise (docs/GLOSSARY.md), not of what the code does about it:
//            as joins and decodes complete, records name more, and more may be lost again.
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

// there: this start of the node has its memory, and keeps it.
bool SurvivesWith(const cluster::View& view, absl::FunctionRef<bool(const cluster::Holder&)> there);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SURVIVAL_H_
