// tools/ring-bench/recovery_target.h — a cluster of six nodes that lose one of them, again and
// again.
//
// What:      RecoveryTarget: the embedded cluster of this process, or six ringd processes; how to
//            reach it, what its nodes tell of a fail-over, the kill, and the return.
// Shape:     s = 3, d = 2, one spare, the paper's seven memgests; fail_over is on. Processes keep
//            what they voted in files, unless told otherwise; the embedded cluster has none.
// Ownership: owns the nodes; they are gone with it.
// Threads:   the one that started it; Connect any.
// Errors:    Start: as Host::Start; kNotFound (no ringd), kUnavailable (a node ended, with its
//            log).
#ifndef RING_TOOLS_RING_BENCH_RECOVERY_TARGET_H_
#define RING_TOOLS_RING_BENCH_RECOVERY_TARGET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/client.h"
#include "ring/cluster/health_summary.h"
#include "ring/cluster/view.h"
#include "ring/node/events/event.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::bench {

struct RecoveryTargetOptions {
  std::string transport = "local";  // local: nodes of this process; shm, tcp: processes
  std::uint32_t detect_ms = 150;
  std::string fence = "lease";
  bool durable = true;                      // processes: a vote counts when it is on the disk
  int reactor_count = 1;                    // local: threads that the nodes share
  std::uint32_t recovery_rate_mib = 256;    // a second, of what comes back in the background
  std::uint32_t recovery_rate_min_mib = 8;  // ... while others want the processor
  protocol::RepairScheme repair = protocol::RepairScheme::kRs;  // of coded memgests
};

class RecoveryTarget {
 public:
  static absl::StatusOr<std::unique_ptr<RecoveryTarget>> Start(
      const RecoveryTargetOptions& options);
  virtual ~RecoveryTarget() = default;

  virtual absl::StatusOr<std::unique_ptr<Client>> Connect() const = 0;
  virtual absl::StatusOr<cluster::View> View() = 0;
  virtual absl::StatusOr<cluster::Health> Health() = 0;
  virtual absl::StatusOr<std::vector<node::NodeEvents>> Events() = 0;
  // A process: by SIGKILL, and it is gone when this returns.
  virtual absl::Status Kill(NodeId node) = 0;
  // Whether who was killed can come back; else a next kill needs a new cluster.
  virtual bool restarts() const = 0;
  // Starts it again, with nothing in memory, and waits until it serves or is a spare.
  virtual absl::Status Restart(NodeId node) = 0;
};

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_RECOVERY_TARGET_H_
