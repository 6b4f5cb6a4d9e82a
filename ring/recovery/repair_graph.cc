#include "ring/recovery/repair_graph.h"

#include <algorithm>
#include <utility>

#include "ec_offload/graph/graph.h"
#include "ec_offload/graph/layout.h"
#include "ring/base/check.h"

namespace ring::recovery {
namespace {

namespace ec = ec_offload;

// In the graph, a column is a node with one chunk; behind the columns come these two.
struct Roles {
  ec::NodeId parity = 0;  // adds the partial sums
  ec::NodeId owner = 0;   // of the lost block
};

ec::Graph Layout(protocol::RepairScheme repair, const ec::Combination& combination,
                 const Roles& roles, std::size_t block_size) {
  ec::GraphBuilder builder(ec::Field::kGf256, block_size);
  switch (repair) {
    case protocol::RepairScheme::kRs:
      RING_CHECK(false) << "the blocks themselves go to the parity node";
      break;
    case protocol::RepairScheme::kPpr:
      ec::AddBinomialTree(builder, combination, roles.parity);
      break;
    case protocol::RepairScheme::kEcPipe:
      ec::AddChain(builder, combination, roles.parity,
                   std::max(kChainSliceSize, block_size / kSlicesMax), ec::ChainOrder::kBasic);
      break;
    case protocol::RepairScheme::kTriEc:
      ec::AddTripartiteDecode(builder, combination, {{roles.parity}, false}, roles.owner);
      break;
  }
  absl::StatusOr<ec::Graph> graph = std::move(builder).Build();
  RING_CHECK(graph.ok()) << graph.status().ToString();
  return *std::move(graph);
}

class Tree {
 public:
  Tree(const ec::Graph& graph, const srs::Layout& layout, std::uint32_t extent, std::uint32_t row)
      : graph_(graph), layout_(layout), extent_(extent), row_(row) {}

  // A vertex's first input is its own block, and what comes in is added.
  void Append(std::size_t index, std::vector<PartialStep>* steps) const {
    const ec::Vertex& vertex = graph_.vertices()[index];
    const srs::DataBlock data = layout_.BlockOf(extent_, row_, vertex.node);
    PartialStep step;
    step.shard = ShardId(static_cast<std::uint16_t>(data.shard));
    step.block = static_cast<std::uint32_t>(data.offset / layout_.block_size());
    step.coefficient = vertex.matrix.At(0, 0);
    step.child_count = static_cast<std::uint8_t>(vertex.incoming.size());
    steps->push_back(step);
    for (const std::size_t edge : vertex.incoming) Append(graph_.edges()[edge].from, steps);
  }

 private:
  const ec::Graph& graph_;
  const srs::Layout& layout_;
  std::uint32_t extent_;
  std::uint32_t row_;
};

}  // namespace

std::vector<PartialTree> PlanPartials(protocol::RepairScheme repair, const srs::Recipe& recipe,
                                      const srs::Layout& layout, std::uint32_t extent,
                                      std::uint32_t row) {
  ec::Combination combination;
  std::vector<ec::gf256::Element> factors;
  for (const srs::Term& term : recipe.terms) {
    if (term.survivor.is_parity) continue;
    combination.helpers.push_back({term.survivor.index, term.survivor.index});
    factors.push_back(term.coefficient);
  }
  if (factors.empty()) return {};
  combination.wanted = {recipe.lost.index};
  combination.factors = ec::Matrix(1, factors.size());
  for (std::size_t i = 0; i < factors.size(); ++i) combination.factors.At(0, i) = factors[i];
  const ec::NodeId k = layout.parameters().k;
  const Roles roles{k, k + 1};
  const ec::Graph graph = Layout(repair, combination, roles, layout.block_size());
  const Tree tree(graph, layout, extent, row);
  std::vector<PartialTree> trees;
  for (const ec::Edge& edge : graph.edges()) {
    const ec::Vertex& to = graph.vertices()[edge.to];
    if (to.node != roles.parity) continue;
    PartialTree& partial = trees.emplace_back();
    partial.offset = static_cast<std::uint32_t>(to.range.offset);
    partial.length = static_cast<std::uint32_t>(to.range.length);
    tree.Append(edge.from, &partial.steps);
  }
  return trees;
}

}  // namespace ring::recovery
