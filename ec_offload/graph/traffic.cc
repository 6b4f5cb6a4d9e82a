#include "ec_offload/graph/traffic.h"

#include <set>
#include <vector>

namespace ring::ec_offload {
namespace {

std::size_t CountSteps(const Graph& graph) {
  std::vector<std::size_t> missing_counts;
  for (const Vertex& vertex : graph.vertices()) missing_counts.push_back(vertex.in_degree());
  std::vector<bool> sent(graph.edges().size(), false);
  std::size_t steps = 0;
  for (std::size_t left = graph.edges().size(); left > 0; ++steps) {
    std::set<NodeId> senders;
    std::set<NodeId> receivers;
    std::vector<std::size_t> arrived;
    for (std::size_t e = 0; e < graph.edges().size(); ++e) {
      const Edge& edge = graph.edges()[e];
      if (sent[e] || missing_counts[edge.from] > 0) continue;
      const NodeId from = graph.vertices()[edge.from].node;
      const NodeId to = graph.vertices()[edge.to].node;
      if (senders.count(from) > 0 || receivers.count(to) > 0) continue;
      senders.insert(from);
      receivers.insert(to);
      arrived.push_back(e);
    }
    for (const std::size_t e : arrived) {
      sent[e] = true;
      --missing_counts[graph.edges()[e].to];
    }
    left -= arrived.size();
  }
  return steps;
}

}  // namespace

Traffic CountTraffic(const Graph& graph) {
  Traffic traffic;
  traffic.message_count = graph.edges().size();
  for (const Edge& edge : graph.edges()) traffic.size += graph.RangeOf(edge).length;
  traffic.step_count = CountSteps(graph);
  return traffic;
}

}  // namespace ring::ec_offload
