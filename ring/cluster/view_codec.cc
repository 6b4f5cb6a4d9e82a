// The bytes of a view: magic, version, then the fields of view.h in order; counts are u32, strings
// have a u16 length. Nothing may follow.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "ring/cluster/view.h"
#include "ring/cluster/wire.h"

namespace ring::cluster {
namespace {

constexpr std::uint32_t kViewMagic = 0x57455652;  // "RVEW"
constexpr std::uint16_t kViewVersion = 1;
constexpr std::size_t kMemgestIdCount = 0x10000;

absl::Status Truncated(absl::string_view field) {
  return absl::InvalidArgumentError(absl::StrCat("view: bytes end within field=", field));
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

std::string ReadText(ByteReader& in) {
  const absl::string_view text = in.GetString();
  return std::string(text.data(), text.size());
}

absl::Status ReadNodes(ByteReader& in, View& view) {
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in, "node_count", kNodeCountMax));
  for (std::size_t i = 0; i < count; ++i) {
    NodeInfo node;
    node.id = NodeId(in.Get<std::uint32_t>());
    node.incarnation = Incarnation(in.Get<std::uint64_t>());
    for (std::string* text : {&node.name, &node.local_address, &node.shm_address, &node.tcp_address,
                              &node.admin_address, &node.host}) {
      *text = ReadText(in);
    }
    if (!in.ok()) return Truncated(absl::StrCat("nodes[", i, "]"));
    view.nodes.push_back(std::move(node));
  }
  return absl::OkStatus();
}

absl::Status ReadGroups(ByteReader& in, View& view) {
  constexpr std::size_t kCountMax = kShardCountMax + kRedundancyMax;
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in, "group_count", kCountMax));
  for (std::size_t g = 0; g < count; ++g) {
    GroupView group;
    group.epoch = Epoch(in.Get<std::uint32_t>());
    RING_ASSIGN_OR_RETURN(const std::size_t roles, ReadCount(in, "role_count", kCountMax));
    for (std::size_t x = 0; x < roles; ++x) {
      group.roles.push_back(NodeId(in.Get<std::uint32_t>()));
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

}  // namespace

std::string EncodeView(const View& view) {
  ByteWriter out;
  out.Put(kViewMagic);
  out.Put(kViewVersion);
  out.Put(static_cast<std::uint8_t>(view.s));
  out.Put(static_cast<std::uint8_t>(view.d));
  out.Put(view.epoch);
  out.Put(view.cluster);
  out.Put(view.value_size_max);
  out.Put(view.default_memgest.value());
  out.Put(static_cast<std::uint32_t>(view.nodes.size()));
  for (const NodeInfo& node : view.nodes) {
    out.Put(node.id.value());
    out.Put(node.incarnation.value());
    for (const std::string* text : {&node.name, &node.local_address, &node.shm_address,
                                    &node.tcp_address, &node.admin_address, &node.host}) {
      out.PutString(*text);
    }
  }
  out.Put(static_cast<std::uint32_t>(view.groups.size()));
  for (const GroupView& group : view.groups) {
    out.Put(group.epoch.value());
    out.Put(static_cast<std::uint32_t>(group.roles.size()));
    for (const NodeId holder : group.roles) out.Put(holder.value());
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
  view.value_size_max = in.Get<std::uint64_t>();
  view.default_memgest = MemgestId(in.Get<std::uint16_t>());
  if (!in.ok()) return Truncated("header");
  if (magic != kViewMagic) return absl::InvalidArgumentError("view: magic is not that of a view");
  if (version != kViewVersion) {
    return absl::InvalidArgumentError(absl::StrCat("view: version=", version, " is not known, ",
                                                   kViewVersion, " is: upgrade the older side"));
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
