// tests/cluster/view_builders.h — small valid views to start a test from.
//
// What:      TestNodes(count), Rep(name, r), Srs(name, k, m), TestView(): s=3, d=2, six nodes, two
//            memgests.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TESTS_CLUSTER_VIEW_BUILDERS_H_
#define RING_TESTS_CLUSTER_VIEW_BUILDERS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/cluster/view.h"

namespace ring::cluster {

inline std::vector<NodeInfo> TestNodes(int count) {
  std::vector<NodeInfo> nodes;
  for (int i = 0; i < count; ++i) {
    NodeInfo node;
    node.id = NodeId(static_cast<std::uint32_t>(i));
    node.name = absl::StrCat("n", i);
    node.tcp_address = absl::StrCat("tcp:10.0.0.", i + 1, ":7800");
    nodes.push_back(std::move(node));
  }
  return nodes;
}

inline protocol::MemgestDescriptor Rep(std::string name, int r) {
  protocol::MemgestDescriptor memgest;
  memgest.name = std::move(name);
  memgest.r = static_cast<std::uint8_t>(r);
  return memgest;
}

inline protocol::MemgestDescriptor Srs(std::string name, int k, int m) {
  protocol::MemgestDescriptor memgest;
  memgest.name = std::move(name);
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.r = 0;
  memgest.k = static_cast<std::uint8_t>(k);
  memgest.m = static_cast<std::uint8_t>(m);
  return memgest;
}

inline View TestView() {
  return InitialView(3, 2, TestNodes(6), {Rep("REP3", 3), Srs("SRS32", 3, 2)});
}

}  // namespace ring::cluster

#endif  // RING_TESTS_CLUSTER_VIEW_BUILDERS_H_
