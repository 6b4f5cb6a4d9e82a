// The bytes of a command: u8 version, u8 kind, then its fields in the order of cluster_command.h;
// counts are u32, strings have a u16 length. Nothing may follow.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/cluster/cluster_command.h"
#include "ring/cluster/fields.h"

namespace ring::cluster {
namespace {

// What a log on disk has stays readable: a command that is not understood is refused, and the ones
// after it are applied all the same. 1: nodes without rdma_address.
constexpr std::uint8_t kVersion = 2;
constexpr std::uint8_t kVersionWithoutRdma = 1;
constexpr std::size_t kMemgestCountMax = 0x10000;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cluster command: ", what));
}

absl::StatusOr<std::string> ReadReason(ByteReader& in) {
  const absl::string_view text = in.GetString();
  if (text.size() > kReasonSizeMax) return Bad(absl::StrCat("reason has size=", text.size()));
  return std::string(text);
}

// A count that cannot make the reader reserve more than the bytes that are there.
absl::StatusOr<std::size_t> ReadCount(ByteReader& in) {
  const std::size_t count = in.Get<std::uint32_t>();
  if (count > kMemgestCountMax) return Bad(absl::StrCat("memgest_count=", count));
  return count;
}

struct Writer {
  ByteWriter& out;
  void operator()(const RegisterNode& command) const { PutNode(out, command.info); }
  void operator()(const FailNode& command) const {
    out.Put(command.node.value());
    out.Put(command.incarnation.value());
    out.PutString(absl::string_view(command.reason).substr(0, kReasonSizeMax));
  }
  void operator()(const DrainNode& command) const { out.Put(command.node.value()); }
  void operator()(const RemoveNode& command) const {
    out.Put(command.node.value());
    out.Put(std::uint8_t{command.force});
  }
  void operator()(const NewEpoch& command) const {
    out.Put(command.group.value());
    out.Put(command.expected.value());
    out.Put(command.demoted);
    out.PutString(absl::string_view(command.reason).substr(0, kReasonSizeMax));
  }
  void operator()(const SetNormal& command) const {
    out.Put(command.group.value());
    out.Put(command.shard.value());
    out.Put(command.epoch.value());
    out.Put(static_cast<std::uint32_t>(command.memgests.size()));
    for (const MemgestNormal& memgest : command.memgests) PutMemgestNormal(out, memgest);
  }
  void operator()(const Overrun& command) const {
    out.Put(command.group.value());
    out.Put(command.shard.value());
    out.Put(command.epoch.value());
    out.Put(static_cast<std::uint32_t>(command.memgests.size()));
    for (const MemgestId memgest : command.memgests) out.Put(memgest.value());
  }
  void operator()(const CatalogueCommand& command) const {
    out.bytes().append(EncodeCommand(command));
  }
  void operator()(const AddNode& command) const { PutNode(out, command.info); }
  void operator()(const ReturnRole& command) const {
    out.Put(command.group.value());
    out.Put(command.shard.value());
    out.Put(command.expected.value());
    out.Put(command.role.value());
  }
  void operator()(const Found& command) const { out.bytes().append(EncodeView(command.view)); }
};

template <class Command>
absl::StatusOr<ClusterCommand> ReadOfNode(std::uint8_t version, ByteReader& in) {
  std::optional<NodeInfo> info = ReadNode(in, version != kVersionWithoutRdma);
  if (!info.has_value()) return Bad("node is cut short");
  return Command{*std::move(info)};
}

absl::StatusOr<ClusterCommand> ReadFail(ByteReader& in) {
  FailNode command;
  command.node = NodeId(in.Get<std::uint32_t>());
  command.incarnation = Incarnation(in.Get<std::uint64_t>());
  RING_ASSIGN_OR_RETURN(command.reason, ReadReason(in));
  return command;
}

absl::StatusOr<ClusterCommand> ReadNewEpoch(ByteReader& in) {
  NewEpoch command;
  command.group = GroupId(in.Get<std::uint16_t>());
  command.expected = Epoch(in.Get<std::uint32_t>());
  command.demoted = in.Get<std::uint32_t>();
  RING_ASSIGN_OR_RETURN(command.reason, ReadReason(in));
  return command;
}

ReturnRole ReadReturnRole(ByteReader& in) {
  ReturnRole command;
  command.group = GroupId(in.Get<std::uint16_t>());
  command.shard = ShardId(in.Get<std::uint16_t>());
  command.expected = Epoch(in.Get<std::uint32_t>());
  command.role = Role(in.Get<std::uint16_t>());
  return command;
}

absl::StatusOr<ClusterCommand> ReadSetNormal(ByteReader& in) {
  SetNormal command;
  command.group = GroupId(in.Get<std::uint16_t>());
  command.shard = ShardId(in.Get<std::uint16_t>());
  command.epoch = Epoch(in.Get<std::uint32_t>());
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in));
  for (std::size_t i = 0; i < count; ++i) {
    std::optional<MemgestNormal> memgest = ReadMemgestNormal(in);
    if (!memgest.has_value()) return Bad(absl::StrCat("memgests[", i, "] is wrong or cut short"));
    command.memgests.push_back(*std::move(memgest));
  }
  return command;
}

absl::StatusOr<ClusterCommand> ReadOverrun(ByteReader& in) {
  Overrun command;
  command.group = GroupId(in.Get<std::uint16_t>());
  command.shard = ShardId(in.Get<std::uint16_t>());
  command.epoch = Epoch(in.Get<std::uint32_t>());
  RING_ASSIGN_OR_RETURN(const std::size_t count, ReadCount(in));
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    command.memgests.push_back(MemgestId(in.Get<std::uint16_t>()));
  }
  return command;
}

absl::StatusOr<ClusterCommand> ReadRemove(ByteReader& in) {
  const NodeId node(in.Get<std::uint32_t>());
  const auto force = in.Get<std::uint8_t>();
  if (force > 1) return Bad(absl::StrCat("force=", force));
  return RemoveNode{node, force != 0};
}

// The catalogue's commands have a decoder of their own, which takes all that is left.
absl::StatusOr<ClusterCommand> ReadCatalogue(ByteReader& in) {
  RING_ASSIGN_OR_RETURN(CatalogueCommand command, DecodeCommand(*in.rest()));
  *in.rest() = {};
  return command;
}

absl::StatusOr<ClusterCommand> ReadFound(ByteReader& in) {
  RING_ASSIGN_OR_RETURN(View view, DecodeView(*in.rest()));
  *in.rest() = {};
  return Found{std::move(view)};
}

absl::StatusOr<ClusterCommand> ReadKind(std::uint8_t version, std::uint8_t kind, ByteReader& in) {
  switch (kind) {
    case 1:
      return ReadOfNode<RegisterNode>(version, in);
    case 2:
      return ReadFail(in);
    case 3:
      return DrainNode{NodeId(in.Get<std::uint32_t>())};
    case 4:
      return ReadRemove(in);
    case 5:
      return ReadNewEpoch(in);
    case 6:
      return ReadSetNormal(in);
    case 7:
      return ReadOverrun(in);
    case 8:
      return ReadCatalogue(in);
    case 9:
      return ReadOfNode<AddNode>(version, in);
    case 10:
      return ReadReturnRole(in);
    case 11:
      return ReadFound(in);
    default:
      return Bad(absl::StrCat("kind=", kind, " is not known"));
  }
}

}  // namespace

std::string EncodeClusterCommand(const ClusterCommand& command) {
  ByteWriter out;
  out.Put(kVersion);
  out.Put(static_cast<std::uint8_t>(command.index() + 1));
  std::visit(Writer{out}, command);
  return out.Take();
}

absl::StatusOr<ClusterCommand> DecodeClusterCommand(absl::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.Get<std::uint8_t>();
  const auto kind = in.Get<std::uint8_t>();
  if (!in.ok()) return Bad("cut short");
  if (version != kVersion && version != kVersionWithoutRdma) {
    return Bad(absl::StrCat("version=", version, " is not known: upgrade this node"));
  }
  RING_ASSIGN_OR_RETURN(ClusterCommand command, ReadKind(version, kind, in));
  if (!in.ok()) return Bad("cut short");
  if (!in.rest()->empty()) return Bad(absl::StrCat("trailing_bytes=", in.rest()->size()));
  return command;
}

}  // namespace ring::cluster
