// The bytes of a view: magic, version, then the fields of view.h in order; counts are u32, strings
// have a u16 length. Nothing may follow.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/cluster/fields.h"
#include "ring/cluster/view.h"

namespace ring::cluster {
namespace {

constexpr std::uint32_t kViewMagic = 0x57455652;  // "RVEW"
constexpr std::uint16_t kViewVersion = 4;
// Flags of the cluster.
constexpr std::uint8_t kFailOver = 1;
constexpr std::uint8_t kWeakWasDefault = 2;
constexpr std::uint8_t kWeakWasAlone = 4;
constexpr std::size_t kRoleCountMax = kShardCountMax + kRedundancyMax;
constexpr std::size_t kMemgestIdCount = 0x10000;

absl::Status Truncated(absl::string_view field) {
  return absl::InvalidArgumentError(
      absl::StrCat("view: bytes end within, or are wrong in, field=", field));
}

// A count that the list's bounds allow; memory is never reserved for a count that was only read.
absl::StatusOr<std::size_t> ReadCount(ByteReader& in, absl::string_view field, std::size_t max) {
  const std::size_t count = in.Get<std::uint32_t>();
  if (!in.ok()) return Truncated(field);
  if (count > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("view: ", field, "=", count, " must be at most ", max));
  }
  return count;
}

absl::Status ReadNodes(ByteReader& in, View& view) {
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in, "node_count", kNodeCountMax));
  for (std::size_t i = 0; i < count; ++i) {
    std::optional<NodeInfo> node = ReadNode(in);
    if (!node.has_value()) return Truncated(absl::StrCat("nodes[", i, "]"));
    view.nodes.push_back(*std::move(node));
  }
  return absl::OkStatus();
}

Holder ReadHolder(ByteReader& in) {
  const NodeId node(in.Get<std::uint32_t>());
  return {node, Incarnation(in.Get<std::uint64_t>())};
}

absl::Status ReadNormal(ByteReader& in, std::size_t role_count, NormalRecord& normal) {
  normal.epoch = Epoch(in.Get<std::uint32_t>());
  if (normal.epoch.value() == 0) return absl::OkStatus();
  for (std::size_t x = 0; x < role_count; ++x) normal.holders.push_back(ReadHolder(in));
  RING_ASSIGN_OR_RETURN(const std::size_t count,
                        ReadCount(in, "normal_memgest_count", kMemgestIdCount));
  for (std::size_t i = 0; i < count; ++i) {
    std::optional<MemgestNormal> memgest = ReadMemgestNormal(in);
    if (!memgest.has_value()) return Truncated("normal");
    normal.memgests.push_back(*std::move(memgest));
  }
  return absl::OkStatus();
}

absl::Status ReadShard(ByteReader& in, std::size_t role_count, ShardView& shard) {
  RING_RETURN_IF_ERROR(ReadNormal(in, role_count, shard.normal));
  shard.overrun_epoch = Epoch(in.Get<std::uint32_t>());
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in, "overrun_count", kMemgestIdCount));
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    shard.overrun.push_back(MemgestId(in.Get<std::uint16_t>()));
  }
  return in.ok() ? absl::OkStatus() : Truncated("overrun");
}

absl::Status ReadGroups(ByteReader& in, View& view) {
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in, "group_count", kRoleCountMax));
  for (std::size_t g = 0; g < count; ++g) {
    GroupView group;
    group.epoch = Epoch(in.Get<std::uint32_t>());
    group.demoted = in.Get<std::uint32_t>();
    RING_ASSIGN_OR_RETURN(const std::size_t roles, ReadCount(in, "role_count", kRoleCountMax));
    for (std::size_t x = 0; x < roles; ++x) {
      const Holder holder = ReadHolder(in);
      group.roles.push_back(holder.node);
      group.incarnations.push_back(holder.incarnation);
    }
    RING_ASSIGN_OR_RETURN(const std::size_t shards, ReadCount(in, "shard_count", kShardCountMax));
    for (std::size_t i = 0; i < shards; ++i) {
      group.shards.emplace_back();
      RING_RETURN_IF_ERROR(ReadShard(in, roles, group.shards.back()));
    }
    if (!in.ok()) return Truncated(absl::StrCat("groups[", g, "]"));
    view.groups.push_back(std::move(group));
  }
  return absl::OkStatus();
}

absl::Status ReadMemgests(ByteReader& in, View& view) {
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in, "memgest_count", kMemgestIdCount));
  for (std::size_t i = 0; i < count; ++i) {
    RING_ASSIGN_OR_RETURN(protocol::MemgestDescriptor memgest,
                          protocol::ConsumeMemgestDescriptor(in.rest()));
    view.memgests.push_back(std::move(memgest));
  }
  return absl::OkStatus();
}

void PutHolder(ByteWriter& out, NodeId node, Incarnation incarnation) {
  out.Put(node.value());
  out.Put(incarnation.value());
}

void PutShard(ByteWriter& out, const ShardView& shard) {
  const NormalRecord& normal = shard.normal;
  out.Put(normal.epoch.value());
  if (normal.epoch.value() != 0) {
    for (const Holder& holder : normal.holders) PutHolder(out, holder.node, holder.incarnation);
    out.Put(static_cast<std::uint32_t>(normal.memgests.size()));
    for (const MemgestNormal& memgest : normal.memgests) PutMemgestNormal(out, memgest);
  }
  out.Put(shard.overrun_epoch.value());
  out.Put(static_cast<std::uint32_t>(shard.overrun.size()));
  for (const MemgestId memgest : shard.overrun) out.Put(memgest.value());
}

}  // namespace

std::string EncodeView(const View& view) {
  ByteWriter out;
  out.Put(kViewMagic);
  out.Put(kViewVersion);
  out.Put(static_cast<std::uint8_t>(view.s));
  out.Put(static_cast<std::uint8_t>(view.d));
  out.Put(view.epoch);
  out.Put(view.cluster);
  out.Put(view.founding);
  out.Put(view.value_size_max);
  out.Put(static_cast<std::uint8_t>(view.voter_count));
  out.Put(static_cast<std::uint8_t>(view.overrun));
  out.Put(static_cast<std::uint8_t>((view.fail_over ? kFailOver : 0) |
                                    (view.weak_past.was_default ? kWeakWasDefault : 0) |
                                    (view.weak_past.was_alone ? kWeakWasAlone : 0)));
  out.Put(view.default_memgest.value());
  out.Put(static_cast<std::uint32_t>(view.nodes.size()));
  for (const NodeInfo& node : view.nodes) PutNode(out, node);
  out.Put(static_cast<std::uint32_t>(view.groups.size()));
  for (const GroupView& group : view.groups) {
    out.Put(group.epoch.value());
    out.Put(group.demoted);
    out.Put(static_cast<std::uint32_t>(group.roles.size()));
    for (std::size_t x = 0; x < group.roles.size(); ++x) {
      PutHolder(out, group.roles[x], group.incarnations[x]);
    }
    out.Put(static_cast<std::uint32_t>(group.shards.size()));
    for (const ShardView& shard : group.shards) PutShard(out, shard);
  }
  out.Put(static_cast<std::uint32_t>(view.memgests.size()));
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    protocol::AppendMemgestDescriptor(memgest, &out.bytes());
  }
  return out.Take();
}

absl::StatusOr<View> DecodeView(absl::string_view bytes) {
  ByteReader in(bytes);
  const auto magic = in.Get<std::uint32_t>();
  const auto version = in.Get<std::uint16_t>();
  View view;
  view.s = in.Get<std::uint8_t>();
  view.d = in.Get<std::uint8_t>();
  view.epoch = in.Get<std::uint32_t>();
  view.cluster = in.Get<std::uint64_t>();
  view.founding = in.Get<std::uint64_t>();
  view.value_size_max = in.Get<std::uint64_t>();
  view.voter_count = in.Get<std::uint8_t>();
  view.overrun = static_cast<OverrunPolicy>(in.Get<std::uint8_t>());
  const auto flags = in.Get<std::uint8_t>();
  view.fail_over = (flags & kFailOver) != 0;
  view.weak_past = {(flags & kWeakWasDefault) != 0, (flags & kWeakWasAlone) != 0};
  view.default_memgest = MemgestId(in.Get<std::uint16_t>());
  if (!in.ok()) return Truncated("header");
  if (magic != kViewMagic) return absl::InvalidArgumentError("view: magic is not that of a view");
  if (version != kViewVersion) {
    return absl::InvalidArgumentError(absl::StrCat("view: version=", version, " is not known, ",
                                                   kViewVersion, " is: upgrade the older side"));
  }
  if (flags > (kFailOver | kWeakWasDefault | kWeakWasAlone)) {
    return absl::InvalidArgumentError(absl::StrCat("view: flags=", flags));
  }
  RING_RETURN_IF_ERROR(ReadNodes(in, view));
  RING_RETURN_IF_ERROR(ReadGroups(in, view));
  RING_RETURN_IF_ERROR(ReadMemgests(in, view));
  if (!in.rest()->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("view: trailing_bytes=", in.rest()->size(), " behind its end"));
  }
  RING_RETURN_IF_ERROR(view.Validate());
  return view;
}

}  // namespace ring::cluster
