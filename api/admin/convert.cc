#include "api/admin/convert.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::admin {
namespace {

using protocol::CommitRule;
using protocol::MemgestDescriptor;
using protocol::MemgestState;
using protocol::Scheme;

absl::StatusOr<std::uint8_t> Small(absl::string_view field, std::uint32_t value) {
  if (value > std::numeric_limits<std::uint8_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(field, "=", value, " must be at most 255"));
  }
  return static_cast<std::uint8_t>(value);
}

absl::Status ReadScheme(const v1::MemgestSpec& spec, MemgestDescriptor& descriptor) {
  switch (spec.scheme_case()) {
    case v1::MemgestSpec::kReplicated: {
      descriptor.scheme = Scheme::kReplicated;
      RING_ASSIGN_OR_RETURN(descriptor.r,
                            Small("spec.replicated.copies", spec.replicated().copies()));
      return absl::OkStatus();
    }
    case v1::MemgestSpec::kStretched: {
      descriptor.scheme = Scheme::kStretchedReedSolomon;
      descriptor.r = 0;
      RING_ASSIGN_OR_RETURN(descriptor.k,
                            Small("spec.stretched.data_blocks", spec.stretched().data_blocks()));
      RING_ASSIGN_OR_RETURN(
          descriptor.m, Small("spec.stretched.parity_blocks", spec.stretched().parity_blocks()));
      return absl::OkStatus();
    }
    case v1::MemgestSpec::SCHEME_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "spec.scheme is missing: set replicated or stretched (this server knows no other)");
}

std::string NameOf(const MemgestDescriptor& descriptor) {
  if (descriptor.scheme == Scheme::kStretchedReedSolomon) {
    const bool digits = descriptor.k < 10 && descriptor.m < 10;
    return absl::StrCat("SRS", descriptor.k, digits ? "" : "-", descriptor.m);
  }
  return absl::StrCat("REP", descriptor.r, descriptor.commit == CommitRule::kAll ? "-ALL" : "");
}

// Each counter is the field of its name.
const google::protobuf::FieldDescriptor* FieldOf(const rdma::DeviceCounter& counter) {
  const auto* field = v1::DeviceCounters::descriptor()->FindFieldByName(counter.name);
  RING_CHECK(field != nullptr);
  return field;
}

v1::DeviceCounters ToProto(const rdma::DeviceCounters& counters) {
  v1::DeviceCounters out;
  for (const rdma::DeviceCounter& counter : rdma::kDeviceCounters)
    out.GetReflection()->SetUInt64(&out, FieldOf(counter), counters.*counter.member);
  return out;
}

rdma::DeviceCounters FromProto(const v1::DeviceCounters& counters) {
  rdma::DeviceCounters out;
  for (const rdma::DeviceCounter& counter : rdma::kDeviceCounters)
    out.*counter.member = counters.GetReflection()->GetUInt64(counters, FieldOf(counter));
  return out;
}

}  // namespace

absl::StatusOr<MemgestId> ToMemgestId(std::uint32_t value) {
  if (value > kMemgestIdMax.value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("memgest id=", value, " must be at most ", kMemgestIdMax.value()));
  }
  return MemgestId(static_cast<std::uint16_t>(value));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

v1::MemgestSpec ToProto(const MemgestDescriptor& descriptor) {
  v1::MemgestSpec spec;
  spec.set_name(descriptor.name);
  if (descriptor.scheme == Scheme::kReplicated) {
    spec.mutable_replicated()->set_copies(descriptor.r);
  } else {
    spec.mutable_stretched()->set_data_blocks(descriptor.k);
    spec.mutable_stretched()->set_parity_blocks(descriptor.m);
  }
  spec.set_commit(static_cast<v1::CommitRule>(descriptor.commit));
  spec.set_block_size(descriptor.block_size);
  if (descriptor.scheme == Scheme::kStretchedReedSolomon)
    spec.set_repair(static_cast<v1::RepairScheme>(descriptor.repair));
  return spec;
}

v1::Memgest ToProto(const MemgestDescriptor& descriptor, MemgestId default_memgest) {
  v1::Memgest memgest;
  memgest.set_id(descriptor.id.value());
  *memgest.mutable_spec() = ToProto(descriptor);
  memgest.set_state(static_cast<v1::MemgestState>(descriptor.state));
  memgest.set_is_default(descriptor.id == default_memgest);
  memgest.set_failures_tolerated(static_cast<std::uint32_t>(descriptor.FailuresTolerated()));
  memgest.set_storage_overhead(descriptor.StorageOverhead());
  memgest.set_scheme_name(descriptor.SchemeName());
  return memgest;
}

absl::StatusOr<MemgestDescriptor> FromProto(const v1::MemgestSpec& spec) {
  MemgestDescriptor descriptor;
  RING_RETURN_IF_ERROR(ReadScheme(spec, descriptor));
  switch (spec.commit()) {
    case v1::COMMIT_RULE_UNSPECIFIED:
    case v1::COMMIT_RULE_QUORUM:
      descriptor.commit = CommitRule::kQuorum;
      break;
    case v1::COMMIT_RULE_ALL:
      descriptor.commit = CommitRule::kAll;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("spec.commit=", static_cast<int>(spec.commit()), " is not known"));
  }
  if (!v1::RepairScheme_IsValid(spec.repair())) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.repair=", static_cast<int>(spec.repair()), " is not known"));
  }
  if (spec.repair() != v1::REPAIR_SCHEME_UNSPECIFIED)
    descriptor.repair = static_cast<protocol::RepairScheme>(spec.repair());
  if (spec.block_size() != 0) descriptor.block_size = spec.block_size();
  if (spec.name().size() > protocol::kMemgestNameSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat("spec.name has size=", spec.name().size(),
                                                   ", at most ", protocol::kMemgestNameSizeMax));
  }
  descriptor.name = spec.name().empty() ? NameOf(descriptor) : spec.name();
  return descriptor;
}

absl::StatusOr<MemgestDescriptor> FromProto(const v1::Memgest& memgest) {
  RING_ASSIGN_OR_RETURN(MemgestDescriptor descriptor, FromProto(memgest.spec()));
  RING_ASSIGN_OR_RETURN(descriptor.id, ToMemgestId(memgest.id()));
  if (!v1::MemgestState_IsValid(memgest.state()) ||
      memgest.state() == v1::MEMGEST_STATE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("state=", static_cast<int>(memgest.state()), " is not known"));
  }
  descriptor.state = static_cast<MemgestState>(memgest.state());
  return descriptor;
}

v1::GetStatsResponse ToProto(const node::ClusterStats& stats) {
  v1::GetStatsResponse response;
  for (const node::MemgestStats& memgest : stats.memgests) {
    v1::MemgestStats* out = response.add_memgests();
    out->set_id(memgest.id.value());
    out->set_keys(memgest.keys);
    out->set_versions(memgest.versions);
    out->set_logical_bytes(memgest.logical_bytes);
    out->set_slot_bytes(memgest.slot_bytes);
    out->set_resident_bytes(memgest.resident_bytes);
  }
  for (const node::NodeStats& node : stats.nodes) {
    v1::NodeStats* out = response.add_nodes();
    out->set_node(node.node.value());
    out->set_resident_bytes(node.resident_bytes);
    out->set_gets(node.gets);
    out->set_puts(node.puts);
    out->set_deletes(node.deletes);
    out->set_moves(node.moves);
    out->set_refusals(node.refusals);
    out->set_clients(node.clients);
    out->set_log_entries_appended(node.log_entries_appended);
    out->set_log_entries_folded(node.log_entries_folded);
    out->set_log_bytes(node.log_bytes);
    out->set_wakeups(node.wakeups);
    *out->mutable_device_counters() = ToProto(node.device_counters);
    for (const std::string& transport : node.transports) out->add_transports(transport);
    out->set_fence(node.fence);
    out->set_device_faults(node.device_faults);
    out->set_scrub_checked(node.scrub_checked);
    out->set_scrub_mismatches(node.scrub_mismatches);
    out->set_degraded_gets(node.degraded_gets);
    out->set_blocks_decoded(node.blocks_decoded);
  }
  return response;
}

node::ClusterStats FromProto(const v1::GetStatsResponse& response) {
  node::ClusterStats stats;
  for (const v1::MemgestStats& memgest : response.memgests()) {
    stats.memgests.push_back({.id = MemgestId(static_cast<std::uint16_t>(memgest.id())),
                              .keys = memgest.keys(),
                              .versions = memgest.versions(),
                              .logical_bytes = memgest.logical_bytes(),
                              .slot_bytes = memgest.slot_bytes(),
                              .resident_bytes = memgest.resident_bytes()});
  }
  for (const v1::NodeStats& node : response.nodes()) {
    node::NodeStats out;
    out.node = NodeId(node.node());
    out.resident_bytes = node.resident_bytes();
    out.gets = node.gets();
    out.puts = node.puts();
    out.deletes = node.deletes();
    out.moves = node.moves();
    out.refusals = node.refusals();
    out.clients = node.clients();
    out.log_entries_appended = node.log_entries_appended();
    out.log_entries_folded = node.log_entries_folded();
    out.log_bytes = node.log_bytes();
    out.wakeups = node.wakeups();
    out.device_counters = FromProto(node.device_counters());
    out.transports.assign(node.transports().begin(), node.transports().end());
    out.fence = node.fence();
    out.device_faults = node.device_faults();
    out.scrub_checked = node.scrub_checked();
    out.scrub_mismatches = node.scrub_mismatches();
    out.degraded_gets = node.degraded_gets();
    out.blocks_decoded = node.blocks_decoded();
    stats.nodes.push_back(std::move(out));
  }
  return stats;
}

v1::ScrubReport ToProto(const node::ScrubReport& report) {
  v1::ScrubReport out;
  out.set_values_checked(report.values_checked);
  out.set_replicas_checked(report.replicas_checked);
  out.set_rows_checked(report.rows_checked);
  out.set_mismatches(report.mismatches);
  for (const std::string& detail : report.details) out.add_details(detail);
  return out;
}

node::ScrubReport FromProto(const v1::ScrubReport& report) {
  return {.values_checked = report.values_checked(),
          .replicas_checked = report.replicas_checked(),
          .rows_checked = report.rows_checked(),
          .mismatches = report.mismatches(),
          .details = {report.details().begin(), report.details().end()}};
}

}  // namespace ring::admin
