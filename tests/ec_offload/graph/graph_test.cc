#include "ec_offload/graph/graph.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr std::size_t kSize = 10;
constexpr ByteRange kWhole{0, kSize};

// Node 0 reads its chunk 0 and sends it, times 3, to node 1, which keeps it as chunk 5: vertices 0
// and 1. Tests add to it what is wrong.
GraphBuilder Pair() {
  GraphBuilder builder(Field::kGf256, kSize);
  builder.AddSource({0, 0});
  builder.AddVertex(0, kWhole, {0}, Matrix{{3}});
  builder.AddVertex(1, kWhole, {}, Matrix{{1}});
  builder.Connect(0, 0, 1);
  builder.Keep(1, 0, 5);
  return builder;
}

void ExpectRefused(GraphBuilder builder, const std::string& message) {
  EXPECT_THAT(std::move(builder).Build().status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
}

TEST(Graph, KnowsWhatIsThereBeforeAndAfterwards) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Pair().Build());
  EXPECT_EQ(graph.sources(), (std::vector<ChunkPlace>{{0, 0}}));
  EXPECT_EQ(graph.results(), (std::vector<ChunkPlace>{{1, 5}}));
  EXPECT_EQ(graph.vertices()[0].out_degree(), 1U);
  EXPECT_EQ(graph.vertices()[1].in_degree(), 1U);
  EXPECT_EQ(graph.RangeOf(graph.edges()[0]), kWhole);
}

TEST(Graph, EveryVertexIsInTheLayerBehindAllThatItWaitsFor) {
  GraphBuilder builder(Field::kGf256, kSize);
  // 3 -> 0, 3 -> 1 -> 0: vertex 0 waits for the longer way.
  builder.AddVertex(0, kWhole, {}, Matrix{{1, 1}});
  builder.AddVertex(1, kWhole, {}, Matrix{{1}});
  builder.AddVertex(2, kWhole, {}, Matrix{{1}});
  builder.AddSource({3, 0});
  builder.AddVertex(3, kWhole, {0}, Matrix{{1}});
  builder.Connect(3, 0, 0);
  builder.Connect(3, 0, 1);
  builder.Connect(3, 0, 2);
  builder.Connect(1, 0, 0);
  builder.Keep(0, 0, 1);
  builder.Keep(2, 0, 2);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(graph.layers(), (std::vector<std::vector<std::size_t>>{{3}, {1, 2}, {0}}));
}

TEST(Graph, IncomingEdgesAreInputsInTheOrderInWhichTheyWereConnected) {
  GraphBuilder builder(Field::kGf256, kSize);
  builder.AddVertex(0, kWhole, {}, Matrix{{1, 2}});
  for (NodeId node = 1; node <= 2; ++node) {
    builder.AddSource({node, node});
    builder.AddVertex(node, kWhole, {node}, Matrix{{1}});
  }
  builder.Connect(2, 0, 0);
  builder.Connect(1, 0, 0);
  builder.Keep(0, 0, 3);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(graph.vertices()[0].incoming, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(graph.edges()[0], (Edge{2, 0, 0}));
}

TEST(Graph, RefusesACycleAndNamesItsVertices) {
  GraphBuilder builder = Pair();
  builder.AddVertex(2, kWhole, {}, Matrix{{1, 1}});
  builder.AddVertex(3, kWhole, {}, Matrix{{1}, {1}});
  builder.Connect(0, 0, 2);
  builder.Connect(2, 0, 3);
  builder.Connect(3, 0, 2);
  builder.Keep(3, 1, 6);
  ExpectRefused(std::move(builder),
                "vertex 2 at node 2 waits for itself: a cycle through vertices 3, 2");
}

TEST(Graph, ACycleIsFoundFromAVertexThatOnlyWaitsForIt) {
  GraphBuilder builder(Field::kGf256, kSize);
  builder.AddVertex(0, kWhole, {}, Matrix{{1}});
  builder.AddVertex(1, kWhole, {}, Matrix{{1}});
  builder.AddVertex(2, kWhole, {}, Matrix{{1}});
  builder.Connect(1, 0, 0);
  builder.Connect(1, 0, 2);
  builder.Connect(2, 0, 1);
  builder.Keep(0, 0, 0);
  ExpectRefused(std::move(builder), "vertex 1 at node 1 waits for itself");
}

TEST(Graph, RefusesEdgesOfWhatDoesNotExist) {
  GraphBuilder vertex = Pair();
  vertex.Connect(0, 0, 2);
  ExpectRefused(std::move(vertex), "edge 1 joins vertex 2 of 2");
  GraphBuilder output = Pair();
  output.Connect(0, 1, 1);
  ExpectRefused(std::move(output), "vertex 0 at node 0 sends output 1 on edge 1: outputs=1");
  GraphBuilder kept = Pair();
  kept.Keep(1, 1, 6);
  ExpectRefused(std::move(kept), "vertex 1 keeps output 1 as chunk 6: no such output");
}

TEST(Graph, RefusesAnEdgeWithinANode) {
  GraphBuilder builder = Pair();
  builder.AddVertex(0, kWhole, {}, Matrix{{1}});
  builder.Connect(0, 0, 2);
  builder.Keep(2, 0, 6);
  ExpectRefused(std::move(builder), "vertex 0 at node 0 sends to vertex 2 of the same node");
}

TEST(Graph, RefusesEdgesBetweenRangesThatDiffer) {
  for (const ByteRange& other : {ByteRange{0, 9}, ByteRange{1, 9}}) {
    GraphBuilder builder = Pair();
    builder.AddVertex(2, other, {}, Matrix{{1}});
    builder.Connect(0, 0, 2);
    ExpectRefused(std::move(builder),
                  "vertex 0 at node 0 sends offset=0 length=10 to vertex 2 at node 2");
  }
}

TEST(Graph, RefusesRangesOutsideOfTheChunk) {
  for (const ByteRange& range :
       {ByteRange{0, 0}, ByteRange{0, 11}, ByteRange{10, 1}, ByteRange{5, ~std::size_t{0}}}) {
    GraphBuilder builder(Field::kGf256, kSize);
    builder.AddSource({0, 0});
    builder.AddVertex(0, range, {0}, Matrix{{1}});
    builder.AddVertex(1, range, {}, Matrix{{1}});
    builder.Connect(0, 0, 1);
    builder.Keep(1, 0, 0);
    ExpectRefused(std::move(builder), "give a range within chunk_size=10");
  }
}

TEST(Graph, RefusesAMatrixThatDoesNotFitTheInputs) {
  GraphBuilder builder = Pair();
  builder.AddVertex(2, kWhole, {}, Matrix{{1, 1}});
  builder.Connect(0, 0, 2);
  builder.Keep(2, 0, 6);
  ExpectRefused(std::move(builder),
                "vertex 2 at node 2 has chunks=0 incoming=1 and a matrix of columns=2");
  GraphBuilder empty = Pair();
  empty.AddVertex(2, kWhole, {}, Matrix());
  ExpectRefused(std::move(empty), "vertex 2 at node 2: matrix rows=0");
}

TEST(Graph, RefusesCoefficientsOfAnotherField) {
  GraphBuilder builder(Field::kGf16, kSize);
  builder.AddSource({0, 0});
  builder.AddVertex(0, kWhole, {0}, Matrix{{16}});
  builder.AddVertex(1, kWhole, {}, Matrix{{1}});
  builder.Connect(0, 0, 1);
  builder.Keep(1, 0, 0);
  ExpectRefused(std::move(builder), "vertex 0 at node 0: coefficient=16");
}

TEST(Graph, RefusesToReadAChunkThatIsNotThereOrTwice) {
  GraphBuilder missing = Pair();
  missing.AddVertex(2, kWhole, {0}, Matrix{{1}});
  ExpectRefused(std::move(missing), "vertex 2 at node 2 reads chunk 0, which is not there");
  GraphBuilder twice = Pair();
  twice.AddSource({2, 0});
  twice.AddVertex(2, kWhole, {0, 0}, Matrix{{1, 1}});
  ExpectRefused(std::move(twice), "vertex 2 at node 2 reads chunk 0 twice");
}

TEST(Graph, RefusesAnOutputThatGoesNowhereAndAVertexWithoutEdges) {
  GraphBuilder nowhere = Pair();
  nowhere.AddVertex(2, kWhole, {}, Matrix{{1}, {2}});
  nowhere.Connect(0, 0, 2);
  nowhere.Keep(2, 0, 6);
  ExpectRefused(std::move(nowhere), "vertex 2 at node 2 has output 1 that goes nowhere");
  GraphBuilder alone = Pair();
  alone.AddSource({2, 0});
  alone.AddVertex(2, kWhole, {0}, Matrix{{1}});
  alone.Keep(2, 0, 6);
  ExpectRefused(std::move(alone), "vertex 2 at node 2 has no edges");
  ExpectRefused(GraphBuilder(Field::kGf256, kSize), "a graph without vertices");
}

// Chunk 7 at node 1, in two slices: vertices 2 to 5.
GraphBuilder Sliced(ByteRange first, ByteRange second) {
  GraphBuilder builder = Pair();
  for (const ByteRange& range : {first, second}) {
    const std::size_t from = builder.AddVertex(0, range, {0}, Matrix{{1}});
    const std::size_t to = builder.AddVertex(1, range, {}, Matrix{{1}});
    builder.Connect(from, 0, to);
    builder.Keep(to, 0, 7);
  }
  return builder;
}

TEST(Graph, SlicesMakeAWholeResultInAnyOrder) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Sliced({4, 6}, {0, 4}).Build());
  EXPECT_EQ(graph.results(), (std::vector<ChunkPlace>{{1, 5}, {1, 7}}));
}

TEST(Graph, RefusesResultsThatAreKeptTwiceOrInPart) {
  ExpectRefused(Sliced({0, 5}, {4, 6}),
                "vertex 5 at node 1 keeps chunk 7 offset=4 length=6, which vertex 3 keeps");
  ExpectRefused(Sliced({0, 10}, {0, 10}), "vertex 5 at node 1 keeps chunk 7");
  ExpectRefused(Sliced({0, 4}, {5, 5}),
                "vertex 3 at node 1 keeps a part of chunk 7: nobody keeps the byte at offset=4");
  ExpectRefused(Sliced({0, 4}, {4, 5}), "nobody keeps the byte at offset=9");
  GraphBuilder named_twice = Pair();
  named_twice.Keep(1, 0, 6);
  ExpectRefused(std::move(named_twice), "vertex 1 at node 1 keeps output 0 as chunks 5 and 6");
}

TEST(Graph, RefusesAResultThatWouldReplaceASource) {
  GraphBuilder builder = Pair();
  builder.AddSource({1, 5});
  ExpectRefused(std::move(builder), "vertex 1 at node 1 keeps chunk 5, which is there already");
}

}  // namespace
}  // namespace ring::ec_offload
