// The view that all nodes of a configuration start from.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/node/config/config.h"
#include "ring/node/config/link_policy.h"

namespace ring::node {

cluster::View NodeConfig::InitialView() const {
  std::vector<cluster::NodeInfo> infos;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeEntry& node = nodes[i];
    cluster::NodeInfo info;
    info.id = NodeId(static_cast<std::uint32_t>(i));
    info.name = node.name;
    if (Offers(*this, info.id, Transport::kShm)) info.shm_address = absl::StrCat("shm:", node.shm);
    if (Offers(*this, info.id, Transport::kTcp)) info.tcp_address = absl::StrCat("tcp:", node.data);
    if (Offers(*this, info.id, Transport::kRdma))
      info.rdma_address = absl::StrCat("rdma:", node.rdma);
    info.admin_address = node.admin;
    info.host = node.host;
    infos.push_back(std::move(info));
  }
  cluster::View view = cluster::InitialView(s, d, std::move(infos), memgests);
  view.cluster = cluster::ClusterHash(cluster_name, s, d);
  view.value_size_max = value_size_max;
  view.voter_count = static_cast<std::uint32_t>(voter_count());
  view.overrun = control.overrun;
  view.fail_over = control.fail_over;
  const protocol::MemgestDescriptor* chosen = view.FindMemgest(default_memgest);
  RING_CHECK(chosen != nullptr) << "default_memgest=" << default_memgest;
  view.default_memgest = chosen->id;
  return view;
}

}  // namespace ring::node
