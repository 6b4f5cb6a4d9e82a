#include "ec_offload/graph/lanes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "ec_offload/graph/primitive.h"

namespace ring::ec_offload {
namespace {

bool LeavesAtOnce(const Vertex& vertex, std::size_t output) {
  const std::optional<std::size_t> copied = CopiedInput(vertex.matrix, output);
  return copied.has_value() && *copied < vertex.chunks.size();
}

}  // namespace

std::vector<std::size_t> RunOrder(const Graph& graph) {
  std::vector<std::size_t> order;
  for (const std::vector<std::size_t>& layer : graph.layers())
    order.insert(order.end(), layer.begin(), layer.end());
  return order;
}

std::vector<Lane> AssignLanes(const Graph& graph) {
  const std::vector<std::size_t> order = RunOrder(graph);
  std::vector<std::size_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;

  std::vector<std::size_t> sent(graph.edges().size());
  std::iota(sent.begin(), sent.end(), std::size_t{0});
  std::sort(sent.begin(), sent.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t e) {
      return std::tuple(position[graph.edges()[e].from], graph.edges()[e].output, e);
    };
    return key(a) < key(b);
  });

  std::vector<Lane> lanes;
  std::map<std::tuple<NodeId, NodeId, bool>, std::vector<std::size_t>> lanes_of;
  for (const std::size_t e : sent) {
    const Edge& edge = graph.edges()[e];
    const Vertex& from = graph.vertices()[edge.from];
    const Lane wanted{
        from.node, graph.vertices()[edge.to].node, LeavesAtOnce(from, edge.output), {}};
    std::vector<std::size_t>& candidates = lanes_of[{wanted.from, wanted.to, wanted.at_once}];
    const auto found = std::find_if(candidates.begin(), candidates.end(), [&](std::size_t lane) {
      return position[graph.edges()[lanes[lane].edges.back()].to] <= position[edge.to];
    });
    if (found != candidates.end()) {
      lanes[*found].edges.push_back(e);
      continue;
    }
    candidates.push_back(lanes.size());
    lanes.push_back(wanted);
    lanes.back().edges.push_back(e);
  }
  return lanes;
}

}  // namespace ring::ec_offload
