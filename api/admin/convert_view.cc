// Views and memgests, as they travel in requests and answers of the admin service.
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/admin/convert.h"
#include "ring/base/status.h"
#include "ring/cluster/health.h"

namespace ring::admin {
namespace {

void SetNode(const cluster::NodeInfo& node, v1::Node* out) {
  out->set_id(node.id.value());
  out->set_name(node.name);
  out->set_incarnation(node.incarnation.value());
  out->set_local_address(node.local_address);
  out->set_shm_address(node.shm_address);
  out->set_tcp_address(node.tcp_address);
  out->set_rdma_address(node.rdma_address);
  out->set_admin_address(node.admin_address);
  out->set_host(node.host);
  out->set_status(static_cast<v1::NodeStatus>(node.status));
}

absl::StatusOr<cluster::NodeInfo> ToNode(const v1::Node& node) {
  cluster::NodeInfo out;
  out.id = NodeId(node.id());
  out.name = node.name();
  out.incarnation = Incarnation(node.incarnation());
  out.local_address = node.local_address();
  out.shm_address = node.shm_address();
  out.tcp_address = node.tcp_address();
  out.rdma_address = node.rdma_address();
  out.admin_address = node.admin_address();
  out.host = node.host();
  if (!v1::NodeStatus_IsValid(node.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat("node=", node.id(), " status=", static_cast<int>(node.status())));
  }
  if (node.status() != v1::NODE_STATUS_UNSPECIFIED) {
    out.status = static_cast<cluster::NodeStatus>(node.status());
  }
  return out;
}

void SetShard(const cluster::ShardView& shard, v1::Shard* out) {
  out->set_normal_epoch(shard.normal.epoch.value());
  for (const cluster::Holder& holder : shard.normal.holders) {
    v1::Holder* one = out->add_holders();
    one->set_node(holder.node.value());
    one->set_incarnation(holder.incarnation.value());
  }
  for (const cluster::MemgestNormal& memgest : shard.normal.memgests) {
    v1::MemgestNormal* one = out->add_memgests();
    one->set_memgest(memgest.id.value());
    one->set_active(memgest.active);
    one->set_complete(memgest.complete);
    one->set_lost(memgest.lost);
    for (const cluster::ActiveFrom& from : memgest.active_from) {
      (*one->mutable_active_from())[from.role.value()] = from.extent;
    }
  }
  out->set_overrun_epoch(shard.overrun_epoch.value());
  for (const MemgestId memgest : shard.overrun) out->add_overrun(memgest.value());
}

absl::StatusOr<cluster::MemgestNormal> ToMemgestNormal(const v1::MemgestNormal& memgest) {
  cluster::MemgestNormal out;
  RING_ASSIGN_OR_RETURN(out.id, ToMemgestId(memgest.memgest()));
  out.active = memgest.active();
  out.complete = memgest.complete();
  out.lost = memgest.lost();
  for (std::uint16_t x = 0; x < cluster::kShardCountMax + cluster::kRedundancyMax; ++x) {
    const auto found = memgest.active_from().find(x);
    if (found != memgest.active_from().end()) out.active_from.push_back({Role(x), found->second});
  }
  return out;
}

absl::StatusOr<cluster::ShardView> ToShard(const v1::Shard& shard) {
  cluster::ShardView out;
  out.normal.epoch = Epoch(shard.normal_epoch());
  for (const v1::Holder& holder : shard.holders()) {
    out.normal.holders.push_back({NodeId(holder.node()), Incarnation(holder.incarnation())});
  }
  for (const v1::MemgestNormal& memgest : shard.memgests()) {
    RING_ASSIGN_OR_RETURN(cluster::MemgestNormal one, ToMemgestNormal(memgest));
    out.normal.memgests.push_back(std::move(one));
  }
  out.overrun_epoch = Epoch(shard.overrun_epoch());
  for (const std::uint32_t memgest : shard.overrun()) {
    RING_ASSIGN_OR_RETURN(const MemgestId id, ToMemgestId(memgest));
    out.overrun.push_back(id);
  }
  return out;
}

absl::StatusOr<cluster::GroupView> ToGroup(const v1::Group& group, int s) {
  cluster::GroupView out;
  out.epoch = Epoch(group.epoch());
  for (const std::uint32_t holder : group.roles()) out.roles.push_back(NodeId(holder));
  for (const std::uint64_t one : group.incarnations()) out.incarnations.push_back(Incarnation(one));
  out.demoted = group.demoted();
  if (group.shards_size() > s) {
    return absl::InvalidArgumentError(absl::StrCat("shard_count=", group.shards_size()));
  }
  for (const v1::Shard& shard : group.shards()) {
    RING_ASSIGN_OR_RETURN(cluster::ShardView one, ToShard(shard));
    out.shards.push_back(std::move(one));
  }
  return out;
}

}  // namespace

v1::GetClusterViewResponse ToProto(const cluster::View& view) {
  v1::GetClusterViewResponse response;
  response.set_epoch(view.epoch);
  response.set_cluster(view.cluster);
  response.set_s(static_cast<std::uint32_t>(view.s));
  response.set_d(static_cast<std::uint32_t>(view.d));
  response.set_value_size_max(view.value_size_max);
  response.set_voters(view.voter_count);
  response.set_overrun_continues(view.overrun == cluster::OverrunPolicy::kContinue);
  response.set_fail_over(view.fail_over);
  response.set_default_memgest(view.default_memgest.value());
  for (const cluster::NodeInfo& node : view.nodes) SetNode(node, response.add_nodes());
  for (const cluster::GroupView& group : view.groups) {
    v1::Group* out = response.add_groups();
    out->set_epoch(group.epoch.value());
    for (const NodeId holder : group.roles) out->add_roles(holder.value());
    for (const Incarnation one : group.incarnations) out->add_incarnations(one.value());
    out->set_demoted(group.demoted);
    for (const cluster::ShardView& shard : group.shards) SetShard(shard, out->add_shards());
  }
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    *response.add_memgests() = ToProto(memgest, view.default_memgest);
  }
  for (const std::string& warning : cluster::HealthWarnings(view)) response.add_warnings(warning);
  return response;
}

absl::StatusOr<cluster::View> FromProto(const v1::GetClusterViewResponse& response) {
  cluster::View view;
  view.epoch = response.epoch();
  view.cluster = response.cluster();
  if (response.s() > cluster::kShardCountMax || response.d() > cluster::kRedundancyMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("s=", response.s(), " d=", response.d(), " is no cluster's shape"));
  }
  view.s = static_cast<int>(response.s());
  view.d = static_cast<int>(response.d());
  view.value_size_max = response.value_size_max();
  view.voter_count = response.voters();
  view.overrun = response.overrun_continues() ? cluster::OverrunPolicy::kContinue
                                              : cluster::OverrunPolicy::kStop;
  view.fail_over = response.fail_over();
  RING_ASSIGN_OR_RETURN(view.default_memgest, ToMemgestId(response.default_memgest()));
  for (const v1::Node& node : response.nodes()) {
    RING_ASSIGN_OR_RETURN(cluster::NodeInfo one, ToNode(node));
    view.nodes.push_back(std::move(one));
  }
  for (const v1::Group& group : response.groups()) {
    RING_ASSIGN_OR_RETURN(cluster::GroupView one, ToGroup(group, view.s));
    view.groups.push_back(std::move(one));
  }
  for (const v1::Memgest& memgest : response.memgests()) {
    RING_ASSIGN_OR_RETURN(protocol::MemgestDescriptor descriptor, FromProto(memgest));
    view.memgests.push_back(std::move(descriptor));
  }
  RING_RETURN_IF_ERROR(view.Validate());
  return view;
}

}  // namespace ring::admin
