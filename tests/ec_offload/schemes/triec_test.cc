#include "ec_offload/schemes/triec.h"

#include "ec_offload/graph/traffic.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/graph/primitive_counts.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

constexpr std::size_t kSize = 100;

TEST(TriEc, EncodingSendsKChunksAndTheirProducts) {
  for (const auto& [k, m] : {std::pair{3UL, 2UL}, {6UL, 3UL}, {12UL, 4UL}}) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeTriEcScheme({k, m}));
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(kSize));
    EXPECT_EQ(CountTraffic(graph).message_count, k + k * m);
    EXPECT_EQ(CountTraffic(graph).size, (k + k * m) * kSize);
    EXPECT_EQ(graph.layers().size(), 3U);
    // Jerasure's first column is all ones: node 0 has no product to compute.
    EXPECT_EQ(
        PrimitivesOf(graph),
        (PrimitiveCounts{{"send", 1}, {"recv-send", 1}, {"recv-ec-send", k - 1}, {"recv-xor", m}}));
  }
}

TEST(TriEc, ARepairSendsKProductsForEachLossAndThenTheLoss) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeTriEcScheme({6, 3}));
  for (const std::vector<ChunkId>& lost : {std::vector<ChunkId>{2}, {2, 3}, {1, 5, 7}}) {
    const std::size_t e = lost.size();
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Decode(kSize, lost));
    EXPECT_EQ(CountTraffic(graph).message_count, 6 * e + e);
    EXPECT_EQ(CountTraffic(graph).size, (6 * e + e) * kSize);
    EXPECT_EQ(PrimitivesOf(graph)["recv-xor-send"], e);
    EXPECT_EQ(PrimitivesOf(graph)["recv"], 1U);
  }
}

TEST(TriEc, WhoTakesALostOnesPlaceKeepsItsChunk) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeTriEcScheme({6, 3}));
  const Placement placement = scheme->placement();
  ASSERT_OK_AND_ASSIGN(const Graph repair, scheme->Decode(kSize, {2, 7}));
  EXPECT_EQ(repair.results(), (std::vector<ChunkPlace>{{placement.agent(), 2},
                                                       {placement.agent(), 7},
                                                       {placement.Replacement(2), 2},
                                                       {placement.Replacement(7), 7}}));
  ASSERT_OK_AND_ASSIGN(const Graph read, scheme->DegradedRead(kSize, {2, 7}, 2));
  EXPECT_EQ(read.results(), (std::vector<ChunkPlace>{{placement.requestor(), 2}}));
  EXPECT_EQ(CountTraffic(read), (Traffic{7, 7 * kSize, 7}));
}

}  // namespace
}  // namespace ring::ec_offload
