#include "ec_offload/graph/layout.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/ec_offload/graph/combination.h"
#include "tests/ec_offload/graph/primitive_counts.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

constexpr NodeId kRoot = 50;
constexpr std::size_t kSize = 21;

using Neighbours = std::map<NodeId, std::set<NodeId>>;

// Receiver -> who sends to it.
Neighbours ChildrenOf(const Graph& graph) {
  Neighbours children;
  for (const Edge& edge : graph.edges())
    children[graph.vertices()[edge.to].node].insert(graph.vertices()[edge.from].node);
  return children;
}

Graph Tree(std::size_t k) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddBinomialTree(builder, MakeCombination(k), kRoot);
  return *std::move(builder).Build();
}

// Helper number p, from 1 on, is node p - 1.
TEST(Layout, BinomialTreesHaveTheChildrenOfParticipantsWithALowestBit) {
  EXPECT_EQ(ChildrenOf(Tree(3)), (Neighbours{{kRoot, {0, 1}}, {1, {2}}}));
  EXPECT_EQ(ChildrenOf(Tree(6)), (Neighbours{{kRoot, {0, 1, 3}}, {1, {2}}, {3, {4, 5}}}));
  EXPECT_EQ(
      ChildrenOf(Tree(12)),
      (Neighbours{
          {kRoot, {0, 1, 3, 7}}, {1, {2}}, {3, {4, 5}}, {5, {6}}, {7, {8, 9, 11}}, {9, {10}}}));
}

TEST(Layout, ATreeOfSixHasThreeLayersAndThreePrimitives) {
  const Graph graph = Tree(6);
  EXPECT_EQ(graph.layers().size(), 3U);
  EXPECT_EQ(PrimitivesOf(graph),
            (PrimitiveCounts{{"ec-send", 4}, {"recv-ec-send", 2}, {"recv-xor", 1}}));
}

TEST(Layout, AChainGoesThroughEveryHelperSliceBySlice) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddChain(builder, MakeCombination(3), kRoot, 8, ChainOrder::kBasic);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(ChildrenOf(graph), (Neighbours{{1, {0}}, {2, {1}}, {kRoot, {2}}}));
  EXPECT_EQ(PrimitivesOf(graph),
            (PrimitiveCounts{{"ec-send", 3}, {"recv-ec-send", 6}, {"recv", 3}}));
  std::set<std::pair<std::size_t, std::size_t>> ranges;
  for (const Vertex& vertex : graph.vertices())
    ranges.insert({vertex.range.offset, vertex.range.length});
  EXPECT_EQ(ranges, (std::set<std::pair<std::size_t, std::size_t>>{{0, 8}, {8, 8}, {16, 5}}));
}

TEST(Layout, AChunkSmallerThanASliceIsOne) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddChain(builder, MakeCombination(3), kRoot, 32768, ChainOrder::kBasic);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(graph.edges().size(), 3U);
}

TEST(Layout, SlicesInTurnReachTheRootFromAllHelpersButOne) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddChain(builder, MakeCombination(4), kRoot, 3, ChainOrder::kCyclic);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  std::vector<NodeId> last_helpers;
  for (const Edge& edge : graph.edges()) {
    if (graph.vertices()[edge.to].node == kRoot)
      last_helpers.push_back(graph.vertices()[edge.from].node);
  }
  EXPECT_EQ(last_helpers, (std::vector<NodeId>{3, 0, 1, 3, 0, 1, 3}));
}

TEST(Layout, AHelperWhoseFactorIsZeroHasNoPart) {
  const Combination combination = MakeCombination(Matrix{{2, 0, 3}, {0, 5, 7}});
  GraphBuilder tree(Field::kGf256, kSize);
  AddBinomialTree(tree, combination, kRoot);
  ASSERT_OK_AND_ASSIGN(const Graph trees, std::move(tree).Build());
  EXPECT_EQ(trees.edges().size(), 4U);
  GraphBuilder tripartite(Field::kGf256, kSize);
  AddTripartiteDecode(tripartite, combination, {{60, 61}, false}, kRoot);
  ASSERT_OK_AND_ASSIGN(const Graph products, std::move(tripartite).Build());
  EXPECT_EQ(ChildrenOf(products), (Neighbours{{60, {0, 2}}, {61, {1, 2}}, {kRoot, {60, 61}}}));
}

TEST(Layout, ATripartiteEncodingMultipliesAtDataNodesAndAddsAtParityNodes) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddTripartiteEncode(builder, kRoot, Matrix{{1, 0}, {0, 1}, {2, 3}, {4, 5}},
                      {{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(ChildrenOf(graph), (Neighbours{{0, {kRoot}}, {1, {kRoot}}, {2, {0, 1}}, {3, {0, 1}}}));
  EXPECT_EQ(PrimitivesOf(graph),
            (PrimitiveCounts{{"send", 1}, {"recv-ec-send", 2}, {"recv-xor", 2}}));
  EXPECT_EQ(graph.layers().size(), 3U);
}

TEST(Layout, ATripartiteDecodingKeepsChunksAtAggregatorsWhereAsked) {
  for (const bool keep : {false, true}) {
    GraphBuilder builder(Field::kGf256, kSize);
    AddTripartiteDecode(builder, MakeCombination(Matrix{{2, 4}, {3, 5}}), {{60, 61}, keep}, kRoot);
    ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
    EXPECT_EQ(PrimitivesOf(graph),
              (PrimitiveCounts{{"ec-send", 2}, {"recv-xor-send", 2}, {"recv", 1}}));
    std::vector<ChunkPlace> results = {{kRoot, 100}, {kRoot, 101}};
    if (keep) results.insert(results.end(), {{60, 100}, {61, 101}});
    EXPECT_EQ(graph.results(), results);
  }
}

}  // namespace
}  // namespace ring::ec_offload
