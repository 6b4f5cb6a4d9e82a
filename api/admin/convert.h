// api/admin/convert.h — between the admin service's messages and the store's types.
//
// What:      ToProto and FromProto for memgests, views, statistics, health, events and scrub
//            reports; statuses to and from gRPC.
// Ownership: values.
// Threads:   pure.
// Errors:    FromProto: kInvalidArgument naming the field, for what no store type can hold. Whether
//            a memgest fits a cluster is the cluster's to say.
#ifndef RING_API_ADMIN_CONVERT_H_
#define RING_API_ADMIN_CONVERT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/admin.pb.h"
#include "grpcpp/support/status.h"
#include "ring/cluster/view.h"
#include "ring/node/admin_port.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::admin {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Refuses what is no id of a memgest.
absl::StatusOr<MemgestId> ToMemgestId(std::uint32_t value);
v1::MemgestSpec ToProto(const protocol::MemgestDescriptor& descriptor);
v1::Memgest ToProto(const protocol::MemgestDescriptor& descriptor, MemgestId default_memgest);
// An empty name becomes the scheme's: "REP3", "SRS32"; with commit = all, "REP3-ALL".
absl::StatusOr<protocol::MemgestDescriptor> FromProto(const v1::MemgestSpec& spec);
absl::StatusOr<protocol::MemgestDescriptor> FromProto(const v1::Memgest& memgest);

v1::GetClusterViewResponse ToProto(const cluster::View& view);
absl::StatusOr<cluster::View> FromProto(const v1::GetClusterViewResponse& response);

v1::GetStatsResponse ToProto(const node::ClusterStats& stats);
node::ClusterStats FromProto(const v1::GetStatsResponse& response);

v1::GetHealthResponse ToProto(const cluster::Health& health);
cluster::Health FromProto(const v1::GetHealthResponse& response);

v1::AcceptLossRequest ToProto(absl::Span<const cluster::StoppedShard> shards);
// kInvalidArgument: it names none, or a number that is no shard's.
absl::StatusOr<std::vector<cluster::StoppedShard>> FromProto(const v1::AcceptLossRequest& request);

v1::NodeEvents ToProto(const node::NodeEvents& events);
node::NodeEvents FromProto(const v1::NodeEvents& events);

v1::ScrubReport ToProto(const node::ScrubReport& report);
node::ScrubReport FromProto(const v1::ScrubReport& report);

}  // namespace ring::admin

#endif  // RING_API_ADMIN_CONVERT_H_
