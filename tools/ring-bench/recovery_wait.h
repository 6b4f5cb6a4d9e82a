// tools/ring-bench/recovery_wait.h — until a cluster has recovered, however long it takes.
//
// What:      WaitRecovered asks for the cluster's health until `done` says so, and shows how much
//            of the copies is there. It gives up when nothing has changed for a while: how long a
//            recovery takes depends on how much was lost, and on the machine.
// Ownership: borrows the target for the call.
// Threads:   one.
// Errors:    what `done` says; kCancelled, the user interrupted; kDeadlineExceeded with what is
//            missing.
#ifndef RING_TOOLS_RING_BENCH_RECOVERY_WAIT_H_
#define RING_TOOLS_RING_BENCH_RECOVERY_WAIT_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/ring-bench/recovery_target.h"

namespace ring::bench {

// Without a change.
inline constexpr absl::Duration kRecoveryPatience = absl::Seconds(30);

absl::Status WaitRecovered(RecoveryTarget* target, bool show_progress,
                           absl::FunctionRef<absl::StatusOr<bool>()> done);
// ... until all memgests are protected.
absl::Status WaitProtected(RecoveryTarget* target, bool show_progress);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_RECOVERY_WAIT_H_
