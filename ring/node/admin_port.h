// ring/node/admin_port.h — what operators' services may ask of a running process: the seam under
// gRPC and ringctl.
//
// What:      AdminPort: catalogue changes, views, statistics, health, events, scrub. The
//            implementation posts each call to the nodes' reactor and waits; the callers are gRPC
//            threads, never a reactor.
// Shape:     every change carries (admin client, seq), so that a retry is the same change (X6).
// Ownership: values.
// Threads:   any thread but a reactor's.
// Errors:    absl::Status as each method says; kDeadlineExceeded: outcome unknown, retry with the
//            same request id.
// Source:    rules G10, G11, X6.
#ifndef RING_NODE_ADMIN_PORT_H_
#define RING_NODE_ADMIN_PORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"
#include "ring/cluster/health_summary.h"
#include "ring/cluster/view.h"
#include "ring/node/events/event.h"
#include "ring/node/events/fault.h"

namespace ring::node {

struct AdminRequestId {
  std::string client;  // unique per admin client, e.g. 32 hex digits
  std::uint64_t seq = 0;
  friend bool operator==(const AdminRequestId&, const AdminRequestId&) = default;
};

// Counts of one memgest over the whole cluster (each key version counted where it is coordinated).
struct MemgestStats {
  MemgestId id;
  std::uint64_t keys = 0;            // newest committed versions
  std::uint64_t versions = 0;        // all versions not collected
  std::uint64_t logical_bytes = 0;   // of the newest committed versions
  std::uint64_t slot_bytes = 0;      // slots in use at coordinators, rounded up to their size class
  std::uint64_t resident_bytes = 0;  // heap memory of coordinators, replicas and parities
};

struct NodeStats {
  NodeId node;
  std::uint64_t resident_bytes = 0;  // of its heaps, tables, rings and completion records
  std::uint64_t gets = 0;
  std::uint64_t puts = 0;
  std::uint64_t deletes = 0;
  std::uint64_t moves = 0;
  std::uint64_t refusals = 0;
  std::uint64_t clients = 0;
  std::uint64_t log_entries_appended = 0;
  std::uint64_t log_entries_folded = 0;
  std::uint64_t log_bytes = 0;
  std::uint64_t wakeups = 0;
  rdma::DeviceCounters device_counters;  // of the node's device
  // By peer node: "local", "shm", "tcp", "rdma", "down", "" for itself.
  std::vector<std::string> transports;
  std::string fence;                   // "open", "lease", "check": what answers pass
  std::uint64_t device_faults = 0;     // injected into its device
  std::uint64_t scrub_checked = 0;     // values and parity rows, by itself in idle time
  std::uint64_t scrub_mismatches = 0;  // of those
  std::uint64_t degraded_gets = 0;     // of the gets, answered with decoded bytes
  std::uint64_t blocks_decoded = 0;    // for others, of which it holds a parity
};

struct ClusterStats {
  std::vector<MemgestStats> memgests;
  std::vector<NodeStats> nodes;
};

struct ScrubProgress {
  std::uint64_t checked = 0;  // values (replicas) and rows (parities) so far
  std::uint64_t total = 0;    // estimate
};

struct ScrubReport {
  std::uint64_t values_checked = 0;    // values against their CRC at coordinators
  std::uint64_t replicas_checked = 0;  // replica copies compared with their value
  std::uint64_t rows_checked = 0;  // parity rows compared with an encode of their blocks at a cut
  std::uint64_t mismatches = 0;
  std::vector<std::string> details;  // the first 100 mismatches, named
};

// Up to where somebody has seen the events of a start of a node.
struct EventCursor {
  NodeId node;
  Incarnation incarnation;
  std::uint64_t number = 0;
};

class AdminPort {
 public:
  virtual ~AdminPort() = default;
  // What is agreed upon, as far as this process knows. kUnavailable: it knows nothing yet, stands
  // still or ends.
  virtual absl::StatusOr<std::shared_ptr<const cluster::View>> GetView() = 0;
  // kAlreadyExists (name), kInvalidArgument (descriptor). Returns once every node has it (G11).
  virtual absl::StatusOr<protocol::MemgestDescriptor> CreateMemgest(
      const AdminRequestId& id, const protocol::MemgestDescriptor& descriptor) = 0;
  // kNotFound; kFailedPrecondition: not empty without force, or it is the default memgest (G10).
  virtual absl::Status DeleteMemgest(const AdminRequestId& id, absl::string_view name,
                                     bool force) = 0;
  virtual absl::Status SetDefaultMemgest(const AdminRequestId& id, absl::string_view name) = 0;
  virtual absl::StatusOr<ClusterStats> GetStats() = 0;
  // What is protected, at risk, or does not serve. A node that does not answer is a finding, not
  // an error.
  virtual absl::StatusOr<cluster::Health> GetHealth() = 0;
  // Of each node that answers, by id: the events behind its cursor; without one, all it keeps.
  virtual absl::StatusOr<std::vector<NodeEvents>> GetEvents(
      absl::Span<const EventCursor> cursors) = 0;
  // Changes of nodes: a name, or a number. Each is idempotent, and returns when it is agreed upon.
  // Errors: kNotFound; kFailedPrecondition, kUnavailable: not now, and what to do
  // (cluster::CheckDrain).
  virtual absl::Status DrainNode(absl::string_view node, bool force) = 0;
  // A node that the configuration does not name: its name and its addresses. It is a spare once it
  // is started. Names of hosts become numbers in the call. Gives its number; the same again gives
  // the same one. kAlreadyExists: the name or an address is another's; kInvalidArgument names the
  // field, as a host that nobody knows; kResourceExhausted: too many nodes; kUnavailable: also when
  // no resolver answers.
  virtual absl::StatusOr<NodeId> AddNode(const cluster::NodeInfo& info) = 0;
  // It must hold no role; force: one that does is failed first.
  virtual absl::Status RemoveNode(absl::string_view node, bool force) = 0;
  // E8: these shards, which stopped since more was lost than a memgest survives, go on without what
  // nobody has. Gives of how many that is true, also by this word said before: not of those that
  // served already, nor of those that stopped again in another epoch, whose loss nobody has seen
  // yet.
  virtual absl::StatusOr<int> AcceptLoss(absl::Span<const cluster::StoppedShard> shards) = 0;
  // Something goes wrong in the node, on purpose. kFailedPrecondition: it is not configured to take
  // faults. kInvalidArgument names the field.
  virtual absl::Status InjectFault(absl::string_view node, const Fault& fault) = 0;
  // Those of its device, and what became of them. Errors: as InjectFault.
  virtual absl::StatusOr<DeviceFaults> GetDeviceFaults(absl::string_view node) = 0;
  // Compares replicas and parities with the data at a cut, over the whole cluster (S2, S12).
  // progress may be called from the calling thread only; returning false stops the scrub with
  // kCancelled.
  virtual absl::StatusOr<ScrubReport> Scrub(
      absl::FunctionRef<bool(const ScrubProgress&)> progress) = 0;
  // For good: calls that wait are answered kUnavailable now, and so are all that come. What they
  // asked for may still be done. Before the process stops, which else waits for them.
  virtual void EndCalls() = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_ADMIN_PORT_H_
