// tools/common/protection.h — whether a cluster survives all that it promises, and what it lacks.
//
// What:      Unprotected: the health report's findings in one line. WaitProtected: until there are
//            none.
// Threads:   any; they call the cluster.
// Errors:    kDeadlineExceeded with what is missing.
// Source:    docs/GLOSSARY.md (protected).
#ifndef RING_TOOLS_COMMON_PROTECTION_H_
#define RING_TOOLS_COMMON_PROTECTION_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ring/cluster/health_summary.h"

namespace ring::tools {

// What keeps the cluster from being protected, as an operator is told; empty: nothing.
std::string Unprotected(const absl::StatusOr<cluster::Health>& health);

// unprotected: what is missing now; empty: nothing.
absl::Status WaitProtected(absl::FunctionRef<std::string()> unprotected, absl::Duration timeout);

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_PROTECTION_H_
