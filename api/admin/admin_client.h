// api/admin/admin_client.h — the admin service, called from C++.
//
// What:      AdminClient: the calls of ring.admin.v1 in the store's own types.
// Shape:     any node answers for the cluster; the addresses are tried in turn.
// Ownership: values.
// Threads:   any; calls run side by side.
// Errors:    the service's statuses. A call whose answer is lost, or that a node cannot serve now,
//            is sent again with the same request id until the deadline, so that a change is made at
//            most once (X6). kDeadlineExceeded or kUnavailable at the end: a change may or may not
//            have been made.
// Cost:      loads gRPC: tens of milliseconds to start.
#ifndef RING_API_ADMIN_ADMIN_CLIENT_H_
#define RING_API_ADMIN_ADMIN_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ring/cluster/view.h"
#include "ring/node/admin_port.h"

namespace ring::admin {

inline constexpr absl::Duration kDeadlineMax = absl::Seconds(60);

struct AdminClientOptions {
  std::vector<std::string> addresses;  // "HOST:PORT"
  std::string token = {};              // as ReadTokenFile gives it; empty: none
  // Of a call with its retries; what is over kDeadlineMax is cut to it.
  absl::Duration deadline = absl::Seconds(30);
  absl::Duration attempt_deadline = absl::Seconds(15);  // of one try: a drain may take 10 s (G10)
  // Of a whole scrub, which takes as long as there is data; kDeadlineMax does not bound it.
  absl::Duration scrub_deadline = absl::InfiniteDuration();
};

class AdminClient {
 public:
  // Does not wait for a connection. Errors: kInvalidArgument (options).
  static absl::StatusOr<std::unique_ptr<AdminClient>> Create(AdminClientOptions options);
  virtual ~AdminClient() = default;

  // An empty name is made from the scheme. The state and the id of `descriptor` are not looked at.
  virtual absl::StatusOr<protocol::MemgestDescriptor> CreateMemgest(
      const protocol::MemgestDescriptor& descriptor) = 0;
  virtual absl::Status DeleteMemgest(absl::string_view name, bool force) = 0;
  virtual absl::Status SetDefaultMemgest(absl::string_view name) = 0;
  virtual absl::StatusOr<protocol::MemgestDescriptor> GetMemgestDescriptor(
      absl::string_view name) = 0;
  virtual absl::StatusOr<std::vector<protocol::MemgestDescriptor>> ListMemgests(
      bool include_deleted) = 0;
  virtual absl::StatusOr<cluster::View> GetClusterView() = 0;
  virtual absl::StatusOr<node::ClusterStats> GetStats() = 0;
  virtual absl::StatusOr<cluster::Health> GetHealth() = 0;
  virtual absl::StatusOr<std::vector<node::NodeEvents>> GetEvents(
      absl::Span<const node::EventCursor> cursors) = 0;
  virtual absl::Status DrainNode(absl::string_view node, bool force) = 0;
  // info: name and addresses. Gives its number.
  virtual absl::StatusOr<NodeId> AddNode(const cluster::NodeInfo& info) = 0;
  virtual absl::Status RemoveNode(absl::string_view node, bool force) = 0;
  // Shards as GetHealth named them; gives how many of them were still stopped in those epochs.
  virtual absl::StatusOr<int> AcceptLoss(absl::Span<const cluster::StoppedShard> shards) = 0;
  virtual absl::Status InjectFault(absl::string_view node, const node::Fault& fault) = 0;
  virtual absl::StatusOr<node::DeviceFaults> GetDeviceFaults(absl::string_view node) = 0;
  // No retry. progress returning false stops the scrub: kCancelled.
  virtual absl::StatusOr<node::ScrubReport> Scrub(
      absl::FunctionRef<bool(const node::ScrubProgress&)> progress) = 0;
};

}  // namespace ring::admin

#endif  // RING_API_ADMIN_ADMIN_CLIENT_H_
