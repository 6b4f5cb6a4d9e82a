// tests/sim/protection.h — what a simulated cluster lacks until it is protected again.
//
// What:      Unprotected says what is missing until each shard's last record names every member of
//            every memgest with all entries and values, and they really have them: a line for each
//            role, with who waits for what. Empty: the failure budget is whole again.
// Shape:     by the records and by the nodes' own counts, not by the health that nodes report. As
//            far as the nodes that are left allow: a role that no spare can take is not missed.
// Ownership: borrows the cluster.
// Threads:   one.
// Errors:    none.
// Source:    docs/GLOSSARY.md (ACTIVE, data-complete, protected); rules E6, S6.
#ifndef RING_TESTS_SIM_PROTECTION_H_
#define RING_TESTS_SIM_PROTECTION_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

// excused: a memgest that may have bytes which nobody can bring back.
std::vector<std::string> Unprotected(
    SimCluster& cluster, absl::FunctionRef<bool(const protocol::MemgestDescriptor&)> excused);

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_PROTECTION_H_
