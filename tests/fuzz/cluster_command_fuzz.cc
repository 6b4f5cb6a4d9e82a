// Any bytes as a sequence of commands, each behind a u16 length, and at the end as a snapshot: an
// error, or a command that encodes to the same bytes and leaves a valid state, equal on two
// machines.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/cluster/cluster_state.h"
#include "ring/cluster/default_memgests.h"

namespace {

ring::cluster::View FirstView() {
  std::vector<ring::cluster::NodeInfo> nodes;
  for (std::uint32_t i = 0; i < 6; ++i) {
    ring::cluster::NodeInfo node;
    node.id = ring::NodeId(i);
    node.name = absl::StrCat("n", i);
    nodes.push_back(std::move(node));
  }
  ring::cluster::View view =
      ring::cluster::InitialView(3, 2, std::move(nodes), ring::cluster::DefaultMemgests(3, 2));
  view.fail_over = true;
  return view;
}

void ApplyBoth(absl::string_view bytes, ring::cluster::ClusterState& one,
               ring::cluster::ClusterState& two) {
  using namespace ring::cluster;
  const auto command = DecodeClusterCommand(bytes);
  const ClusterResult first = one.Apply(bytes);
  if (!command.ok()) {
    RING_CHECK(!first.status.ok());
    return;
  }
  const std::string again = EncodeClusterCommand(*command);
  // A creation's bytes lose what it does not look at; all others come back as they were.
  RING_CHECK(std::holds_alternative<CatalogueCommand>(*command) || again == bytes);
  const ClusterResult second = two.Apply(*command);
  RING_CHECK(first.status == second.status);
  RING_CHECK(one.view()->Validate().ok());
  RING_CHECK(one.Snapshot() == two.Snapshot());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::cluster;
  static const ClusterState start(FirstView());
  ClusterState one = start;
  ClusterState two = start;
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  if (const auto snapshot = ClusterState::FromSnapshot(rest); snapshot.ok()) {
    RING_CHECK(snapshot->Snapshot() == rest);
  }
  while (rest.size() >= 2) {
    const std::size_t length =
        static_cast<std::uint8_t>(rest[0]) | std::size_t{static_cast<std::uint8_t>(rest[1])} << 8;
    rest.remove_prefix(2);
    const absl::string_view bytes = rest.substr(0, std::min(length, rest.size()));
    rest.remove_prefix(bytes.size());
    ApplyBoth(bytes, one, two);
  }
  return 0;
}
