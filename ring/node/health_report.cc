#include "ring/node/health_report.h"

#include <algorithm>
#include <utility>

#include "ring/base/wire.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

using cluster::MemberReport;
using cluster::MemgestCounts;
using cluster::MemgestNormal;
using cluster::NodeHealth;
using cluster::RebuildReport;
using cluster::ShardReport;

// Longer ones are cut: a report of many shards stays below the size of a control message.
constexpr std::size_t kTextSizeMax = 512;

ShardReport ReportOf(CoordinatedShard& shard) {
  ShardReport report;
  report.group = shard.group();
  report.shard = shard.shard();
  const recovery::EpochChange* const change = shard.change();
  report.serving = shard.serving();
  report.waiting = shard.Missing();
  if (change == nullptr) return report;
  report.epoch = change->plan().epoch;
  report.stopped = change->phase() == recovery::EpochChange::Phase::kStopped;
  if (report.stopped) report.lost = change->lost();
  if (!report.serving) return report;
  report.sets = change->named();
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard.coordinator()->memgests()) {
    if (memgest == nullptr) continue;
    report.counts.push_back({memgest->descriptor().id, memgest->key_count, memgest->version_count,
                             memgest->absent_count, memgest->lost_count});
    for (const memgest::ParityRebuild::Progress& one : memgest->rebuild().progress())
      report.rebuilds.push_back(
          {memgest->descriptor().id, one.role, one.sent_cells, one.all_cells});
  }
  return report;
}

void PutSets(const std::vector<MemgestNormal>& sets, ByteWriter* out) {
  out->Put(static_cast<std::uint16_t>(sets.size()));
  for (const MemgestNormal& set : sets) {
    out->Put(set.id.value());
    out->Put(set.active);
    out->Put(set.complete);
    out->Put(static_cast<std::uint8_t>(set.lost));
    out->Put(static_cast<std::uint8_t>(set.records_lost));
    out->Put(static_cast<std::uint8_t>(set.active_from.size()));
    for (const cluster::ActiveFrom& from : set.active_from) {
      out->Put(from.role.value());
      out->Put(from.extent);
    }
  }
}

std::vector<MemgestNormal> GetSets(ByteReader* in) {
  std::vector<MemgestNormal> sets;
  const auto count = in->Get<std::uint16_t>();
  for (std::uint16_t i = 0; i < count && in->ok(); ++i) {
    MemgestNormal set;
    set.id = MemgestId(in->Get<std::uint16_t>());
    set.active = in->Get<std::uint32_t>();
    set.complete = in->Get<std::uint32_t>();
    set.lost = in->Get<std::uint8_t>() != 0;
    set.records_lost = in->Get<std::uint8_t>() != 0;
    const auto parities = in->Get<std::uint8_t>();
    for (std::uint8_t j = 0; j < parities && in->ok(); ++j) {
      const Role role(in->Get<std::uint16_t>());
      set.active_from.push_back({role, in->Get<std::uint64_t>()});
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

void PutShard(const ShardReport& shard, ByteWriter* out) {
  out->Put(shard.group.value());
  out->Put(shard.shard.value());
  out->Put(shard.epoch.value());
  out->Put(static_cast<std::uint8_t>(shard.serving));
  out->Put(static_cast<std::uint8_t>(shard.stopped));
  out->Put(static_cast<std::uint16_t>(shard.lost.size()));
  for (const MemgestId memgest : shard.lost) out->Put(memgest.value());
  out->PutString(absl::string_view(shard.waiting).substr(0, kTextSizeMax));
  PutSets(shard.sets, out);
  out->Put(static_cast<std::uint16_t>(shard.counts.size()));
  for (const MemgestCounts& counts : shard.counts) {
    out->Put(counts.id.value());
    for (const std::uint64_t value : {counts.keys, counts.values, counts.absent, counts.lost})
      out->Put(value);
  }
  out->Put(static_cast<std::uint16_t>(shard.rebuilds.size()));
  for (const RebuildReport& rebuild : shard.rebuilds) {
    out->Put(rebuild.memgest.value());
    out->Put(rebuild.role.value());
    out->Put(rebuild.sent);
    out->Put(rebuild.all);
  }
}

ShardReport GetShard(ByteReader* in) {
  ShardReport shard;
  shard.group = GroupId(in->Get<std::uint16_t>());
  shard.shard = ShardId(in->Get<std::uint16_t>());
  shard.epoch = Epoch(in->Get<std::uint32_t>());
  shard.serving = in->Get<std::uint8_t>() != 0;
  shard.stopped = in->Get<std::uint8_t>() != 0;
  const auto lost = in->Get<std::uint16_t>();
  for (std::uint16_t i = 0; i < lost && in->ok(); ++i)
    shard.lost.emplace_back(in->Get<std::uint16_t>());
  const absl::string_view waiting = in->GetString();
  shard.waiting.assign(waiting.data(), waiting.size());
  shard.sets = GetSets(in);
  const auto count = in->Get<std::uint16_t>();
  for (std::uint16_t i = 0; i < count && in->ok(); ++i) {
    MemgestCounts counts;
    counts.id = MemgestId(in->Get<std::uint16_t>());
    for (std::uint64_t* const value : {&counts.keys, &counts.values, &counts.absent, &counts.lost})
      *value = in->Get<std::uint64_t>();
    shard.counts.push_back(counts);
  }
  const auto rebuilds = in->Get<std::uint16_t>();
  for (std::uint16_t i = 0; i < rebuilds && in->ok(); ++i) {
    RebuildReport rebuild;
    rebuild.memgest = MemgestId(in->Get<std::uint16_t>());
    rebuild.role = Role(in->Get<std::uint16_t>());
    const auto sent = in->Get<std::uint64_t>();
    // What there is none of is no rebuild.
    rebuild.all = std::max<std::uint64_t>(1, in->Get<std::uint64_t>());
    rebuild.sent = std::min(sent, rebuild.all);
    shard.rebuilds.push_back(rebuild);
  }
  return shard;
}

}  // namespace

NodeHealth CollectHealth(Node& node) {
  NodeHealth health;
  health.node = node.id();
  for (const std::unique_ptr<CoordinatedShard>& shard : node.shards()) {
    health.shards.push_back(ReportOf(*shard));
  }
  if (node.view() == nullptr) return health;
  for (const MemberPort::HeldShard& held : node.members().held_shards()) {
    for (const protocol::MemgestDescriptor& memgest : node.view()->memgests) {
      const std::uint64_t absent = held.store->absent_count(memgest.id);
      if (absent == 0) continue;
      health.members.push_back({held.group, held.shard, memgest.id, absent});
    }
  }
  return health;
}

std::string EncodeHealth(const NodeHealth& health) {
  ByteWriter out;
  out.Put(health.node.value());
  out.Put(static_cast<std::uint16_t>(health.shards.size()));
  for (const ShardReport& shard : health.shards) PutShard(shard, &out);
  out.Put(static_cast<std::uint32_t>(health.members.size()));
  for (const MemberReport& member : health.members) {
    out.Put(member.group.value());
    out.Put(member.shard.value());
    out.Put(member.memgest.value());
    out.Put(member.absent);
  }
  return out.Take();
}

absl::StatusOr<NodeHealth> DecodeHealth(absl::string_view bytes) {
  ByteReader in(bytes);
  NodeHealth health;
  health.node = NodeId(in.Get<std::uint32_t>());
  const auto shards = in.Get<std::uint16_t>();
  for (std::uint16_t i = 0; i < shards && in.ok(); ++i) health.shards.push_back(GetShard(&in));
  const auto members = in.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < members && in.ok(); ++i) {
    MemberReport member;
    member.group = GroupId(in.Get<std::uint16_t>());
    member.shard = ShardId(in.Get<std::uint16_t>());
    member.memgest = MemgestId(in.Get<std::uint16_t>());
    member.absent = in.Get<std::uint64_t>();
    health.members.push_back(member);
  }
  if (!in.finished()) {
    return absl::InvalidArgumentError("the health of a node is malformed");
  }
  return health;
}

}  // namespace ring::node
