#include "ec_offload/schemes/rs.h"

#include "ec_offload/graph/traffic.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/graph/primitive_counts.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

constexpr std::size_t kSize = 100;

TEST(Rs, TheAgentSendsEveryChunkAndEveryChunkOnce) {
  for (const auto& [k, m] : {std::pair{3UL, 2UL}, {6UL, 3UL}, {12UL, 4UL}}) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeRsScheme({k, m}));
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(kSize));
    EXPECT_EQ(CountTraffic(graph), (Traffic{k + m, (k + m) * kSize, k + m}));
    EXPECT_EQ(PrimitivesOf(graph), (PrimitiveCounts{{"ec-send", 1}, {"recv", k + m}}));
  }
}

TEST(Rs, AnyNumberOfLossesTakesKMessages) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeRsScheme({6, 3}));
  for (const std::vector<ChunkId>& lost : {std::vector<ChunkId>{2}, {2, 3}, {0, 5, 7}}) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Decode(kSize, lost));
    EXPECT_EQ(CountTraffic(graph), (Traffic{6, 6 * kSize, 6}));
  }
}

TEST(Rs, WhatTheFirstParityRepairsIsAnXor) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeRsScheme({6, 3}));
  ASSERT_OK_AND_ASSIGN(const Graph data, scheme->DegradedRead(kSize, {2}, 2));
  EXPECT_EQ(PrimitivesOf(data), (PrimitiveCounts{{"send", 6}, {"recv-xor", 1}}));
  ASSERT_OK_AND_ASSIGN(const Graph more, scheme->DegradedRead(kSize, {2, 6}, 2));
  EXPECT_EQ(PrimitivesOf(more), (PrimitiveCounts{{"send", 6}, {"recv-ec", 1}}));
}

}  // namespace
}  // namespace ring::ec_offload
