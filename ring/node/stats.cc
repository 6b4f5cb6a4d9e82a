#include "ring/node/stats.h"

#include <algorithm>

#include "ring/base/wire.h"
#include "ring/node/control_services.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

constexpr std::uint32_t kTransportsMax = 4096;

void AddCoordinator(coordinator::ShardCoordinator& shard, MemgestStats* stats) {
  memgest::Memgest* const memgest = shard.FindMemgest(stats->id);
  if (memgest == nullptr) return;
  stats->keys += memgest->key_count;
  stats->versions += memgest->version_count;
  stats->logical_bytes += memgest->logical_bytes;
  stats->slot_bytes += memgest->allocator().used_bytes();
  stats->resident_bytes += memgest->heap().resident_bytes();
}

MemgestStats MemgestPart(Node& node, MemgestId id) {
  MemgestStats stats;
  stats.id = id;
  for (const std::unique_ptr<CoordinatedShard>& shard : node.shards()) {
    if (shard->serving()) AddCoordinator(*shard->coordinator(), &stats);
  }
  for (const MemberPort::HeldShard& held : node.members().held_shards()) {
    const memgest::HeapSpace* const heap = held.store->replica_heap(id);
    if (heap != nullptr) stats.resident_bytes += heap->resident_bytes();
  }
  for (int g = 0; g < node.view()->group_count(); ++g) {
    const memgest::ParityStore* const parity =
        node.members().FindParity(GroupId(static_cast<std::uint16_t>(g)), id);
    if (parity != nullptr) stats.resident_bytes += parity->heap().resident_bytes();
  }
  return stats;
}

void AddShard(CoordinatedShard& shard, NodeStats* stats) {
  coordinator::ShardCoordinator& coordinator = *shard.coordinator();
  const coordinator::ShardCounters& counters = coordinator.counters();
  stats->gets += counters.gets;
  stats->puts += counters.puts;
  stats->deletes += counters.deletes;
  stats->moves += counters.moves;
  stats->refusals += counters.refusals;
  stats->degraded_gets += counters.degraded_gets;
  stats->log_entries_appended += coordinator.log().next_order() - 1;
  for (const memgest::ShardLog::Link& link : coordinator.log().links())
    stats->log_bytes += link.writer->position();
  stats->resident_bytes +=
      coordinator.lines().resident_bytes() + coordinator.completions().resident_bytes();
}

}  // namespace

NodeReport CollectStats(Node& node) {
  NodeReport report;
  NodeStats& stats = report.node;
  stats.node = node.id();
  stats.clients = node.clients().client_count();
  stats.refusals = node.counters().wrong_owner + node.counters().bad_requests;
  stats.log_entries_folded = node.members().folded_count();
  stats.wakeups = node.wakeups();
  stats.device_counters = node.device().device_counters();
  if (node.faulty_device() != nullptr) stats.device_faults = node.faulty_device()->injected();
  for (const std::unique_ptr<CoordinatedShard>& shard : node.shards()) {
    if (shard->serving()) AddShard(*shard, &stats);
  }
  for (MemberPort::HeldShard& held : node.members().held_shards()) {
    stats.resident_bytes +=
        held.store->lines().resident_bytes() + held.store->completions().resident_bytes();
    if (held.ring.region != nullptr) stats.resident_bytes += held.ring.region->length();
  }
  if (node.view() != nullptr) {
    for (const protocol::MemgestDescriptor& memgest : node.view()->memgests) {
      if (memgest.state == protocol::MemgestState::kDeleted) continue;
      report.memgests.push_back(MemgestPart(node, memgest.id));
      stats.resident_bytes += report.memgests.back().resident_bytes;
    }
  }
  for (std::size_t i = 0; i < node.control().node_count(); ++i)
    stats.transports.push_back(node.control().TransportTo(NodeId(static_cast<std::uint32_t>(i))));
  const IdleScrub::Totals& scrubbed = node.services().scrub().idle_totals();
  stats.scrub_checked = scrubbed.checked;
  stats.scrub_mismatches = scrubbed.mismatches;
  stats.blocks_decoded = node.services().decode().blocks_decoded();
  stats.fence = std::string(node.fence().name());
  return report;
}

std::string EncodeReport(const NodeReport& report) {
  ByteWriter out;
  const NodeStats& node = report.node;
  out.Put(node.node.value());
  for (const std::uint64_t value :
       {node.resident_bytes, node.gets, node.puts, node.deletes, node.moves, node.refusals,
        node.clients, node.log_entries_appended, node.log_entries_folded, node.log_bytes,
        node.wakeups, node.device_faults, node.scrub_checked, node.scrub_mismatches,
        node.degraded_gets, node.blocks_decoded})
    out.Put(value);
  for (const auto& counter : rdma::kDeviceCounters) out.Put(node.device_counters.*counter.member);
  out.Put(static_cast<std::uint32_t>(node.transports.size()));
  for (const std::string& transport : node.transports) out.PutString(transport);
  out.PutString(node.fence);
  out.Put(static_cast<std::uint32_t>(report.memgests.size()));
  for (const MemgestStats& memgest : report.memgests) {
    out.Put(memgest.id.value());
    for (const std::uint64_t value : {memgest.keys, memgest.versions, memgest.logical_bytes,
                                      memgest.slot_bytes, memgest.resident_bytes})
      out.Put(value);
  }
  return out.Take();
}

absl::StatusOr<NodeReport> DecodeReport(absl::string_view bytes) {
  ByteReader in(bytes);
  NodeReport report;
  NodeStats& node = report.node;
  node.node = NodeId(in.Get<std::uint32_t>());
  for (std::uint64_t* const value :
       {&node.resident_bytes, &node.gets, &node.puts, &node.deletes, &node.moves, &node.refusals,
        &node.clients, &node.log_entries_appended, &node.log_entries_folded, &node.log_bytes,
        &node.wakeups, &node.device_faults, &node.scrub_checked, &node.scrub_mismatches,
        &node.degraded_gets, &node.blocks_decoded})
    *value = in.Get<std::uint64_t>();
  for (const auto& counter : rdma::kDeviceCounters)
    node.device_counters.*counter.member = in.Get<std::uint64_t>();
  const auto transport_count = in.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < std::min(transport_count, kTransportsMax) && in.ok(); ++i) {
    node.transports.emplace_back(in.GetString());
  }
  node.fence = std::string(in.GetString());
  const auto memgest_count = in.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < memgest_count && in.ok(); ++i) {
    MemgestStats memgest;
    memgest.id = MemgestId(in.Get<std::uint16_t>());
    for (std::uint64_t* const value : {&memgest.keys, &memgest.versions, &memgest.logical_bytes,
                                       &memgest.slot_bytes, &memgest.resident_bytes})
      *value = in.Get<std::uint64_t>();
    report.memgests.push_back(memgest);
  }
  if (!in.finished() || transport_count > kTransportsMax)
    return absl::InvalidArgumentError("statistics of a node are malformed");
  return report;
}

void AddReport(const NodeReport& report, ClusterStats* cluster) {
  const auto node = std::lower_bound(cluster->nodes.begin(), cluster->nodes.end(), report.node.node,
                                     [](const NodeStats& one, NodeId id) { return one.node < id; });
  cluster->nodes.insert(node, report.node);
  for (const MemgestStats& part : report.memgests) {
    auto memgest =
        std::lower_bound(cluster->memgests.begin(), cluster->memgests.end(), part.id,
                         [](const MemgestStats& one, MemgestId id) { return one.id < id; });
    if (memgest == cluster->memgests.end() || memgest->id != part.id) {
      memgest = cluster->memgests.insert(memgest, MemgestStats{});
      memgest->id = part.id;
    }
    memgest->keys += part.keys;
    memgest->versions += part.versions;
    memgest->logical_bytes += part.logical_bytes;
    memgest->slot_bytes += part.slot_bytes;
    memgest->resident_bytes += part.resident_bytes;
  }
}

}  // namespace ring::node
