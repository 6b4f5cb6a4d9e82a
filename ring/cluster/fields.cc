#include "ring/cluster/fields.h"

#include <limits>

#include "ring/base/check.h"

namespace ring::cluster {
namespace {

// Beside the status, in its byte: NodeInfo::was_draining.
constexpr std::uint8_t kWasDraining = 0x80;

}  // namespace

void PutNode(ByteWriter& out, const NodeInfo& node) {
  out.Put(node.id.value());
  out.Put(node.incarnation.value());
  const auto status = static_cast<std::uint8_t>(node.status);
  out.Put(static_cast<std::uint8_t>(status | (node.was_draining ? kWasDraining : 0)));
  for (const std::string* text :
       {&node.name, &node.local_address, &node.shm_address, &node.tcp_address, &node.rdma_address,
        &node.admin_address, &node.host}) {
    out.PutString(*text);
  }
}

std::optional<NodeInfo> ReadNode(ByteReader& in, bool has_rdma) {
  NodeInfo node;
  node.id = NodeId(in.Get<std::uint32_t>());
  node.incarnation = Incarnation(in.Get<std::uint64_t>());
  const auto status = in.Get<std::uint8_t>();
  node.status = static_cast<NodeStatus>(status & ~kWasDraining);
  node.was_draining = (status & kWasDraining) != 0;
  for (std::string* text : {&node.name, &node.local_address, &node.shm_address, &node.tcp_address,
                            &node.rdma_address, &node.admin_address, &node.host}) {
    if (text == &node.rdma_address && !has_rdma) continue;
    const absl::string_view read = in.GetString();
    text->assign(read.data(), read.size());
  }
  if (!in.ok()) return std::nullopt;
  return node;
}

void PutMemgestNormal(ByteWriter& out, const MemgestNormal& memgest) {
  RING_CHECK(memgest.active_from.size() <= std::numeric_limits<std::uint8_t>::max())
      << "active_from_count=" << memgest.active_from.size();
  out.Put(memgest.id.value());
  out.Put(static_cast<std::uint8_t>(memgest.lost ? 1 : memgest.records_lost ? 2 : 0));
  out.Put(memgest.active);
  out.Put(memgest.complete);
  out.Put(static_cast<std::uint8_t>(memgest.active_from.size()));
  for (const ActiveFrom& from : memgest.active_from) {
    out.Put(static_cast<std::uint8_t>(from.role.value()));
    out.Put(from.extent);
  }
}

std::optional<MemgestNormal> ReadMemgestNormal(ByteReader& in) {
  MemgestNormal memgest;
  memgest.id = MemgestId(in.Get<std::uint16_t>());
  const auto lost = in.Get<std::uint8_t>();
  memgest.lost = lost == 1;
  memgest.records_lost = lost != 0;
  memgest.active = in.Get<std::uint32_t>();
  memgest.complete = in.Get<std::uint32_t>();
  const std::size_t count = in.Get<std::uint8_t>();
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    const Role role(in.Get<std::uint8_t>());
    memgest.active_from.push_back({role, in.Get<std::uint64_t>()});
  }
  if (!in.ok() || lost > 2) return std::nullopt;
  return memgest;
}

}  // namespace ring::cluster
