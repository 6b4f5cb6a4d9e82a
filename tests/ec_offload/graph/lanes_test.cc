// Messages leave in the order in which they are taken, and a node's memory needs no copies.
#include "ec_offload/graph/lanes.h"

#include <gtest/gtest.h>

#include <vector>

#include "ec_offload/graph/node_plan.h"
#include "ec_offload/schemes/ecpipe.h"
#include "ec_offload/schemes/rs.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

TEST(Lanes, EdgesThatCrossHaveLanesOfTheirOwn) {
  GraphBuilder builder(Field::kGf256, 64);
  for (const ChunkId chunk : {0U, 1U}) builder.AddSource({0, chunk});
  const std::size_t first = builder.AddVertex(0, builder.whole_chunk(), {0}, Matrix{{2}});
  const std::size_t second = builder.AddVertex(0, builder.whole_chunk(), {1}, Matrix{{3}});
  const std::size_t early = builder.AddVertex(1, builder.whole_chunk(), {}, Matrix{{1}});
  const std::size_t late = builder.AddVertex(1, builder.whole_chunk(), {}, Matrix{{1}});
  builder.Connect(first, 0, late);
  builder.Connect(second, 0, early);
  builder.Keep(early, 0, 2);
  builder.Keep(late, 0, 3);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  const std::vector<Lane> lanes = AssignLanes(graph);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].edges, std::vector<std::size_t>{0});
  EXPECT_EQ(lanes[1].edges, std::vector<std::size_t>{1});
}

TEST(Lanes, SlicesOfAChainShareOneLaneBetweenNeighbours) {
  ASSERT_OK_AND_ASSIGN(const auto scheme,
                       MakeEcPipeScheme({.code = {.k = 3, .m = 2}, .slice_size = 8}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Decode(64, {0}));
  const std::vector<Lane> lanes = AssignLanes(graph);
  EXPECT_EQ(lanes.size(), 3u);
  for (const Lane& lane : lanes) EXPECT_EQ(lane.edges.size(), 8u);
}

TEST(Lanes, WhatIsNotCalculatedDoesNotWaitForWhatIs) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeRsScheme({.k = 3, .m = 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(64));
  std::size_t at_once = 0;
  for (const Lane& lane : AssignLanes(graph)) at_once += lane.at_once ? 1 : 0;
  EXPECT_EQ(at_once, 3u);
}

TEST(NodePlan, AMessageThatIsKeptIsReceivedWhereItIsKept) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeRsScheme({.k = 3, .m = 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(100));
  ASSERT_OK_AND_ASSIGN(const NodePlan plan, PlanNode(graph, 0));
  ASSERT_EQ(plan.in.size(), 1u);
  EXPECT_EQ(plan.in[0].messages, std::vector<PlannedBuffer>{plan.chunks.at(0)});
  EXPECT_EQ(plan.memory_size, 128u);
  ASSERT_EQ(plan.operations.size(), 1u);
  EXPECT_EQ(plan.operations[0].matrix.rows(), 0u);
}

TEST(NodePlan, OnlyParitiesOfTheAgentAreCalculated) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeRsScheme({.k = 3, .m = 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(100));
  ASSERT_OK_AND_ASSIGN(const NodePlan plan, PlanNode(graph, scheme->placement().agent()));
  ASSERT_EQ(plan.operations.size(), 1u);
  EXPECT_EQ(plan.operations[0].matrix.rows(), 2u);
  EXPECT_EQ(plan.operations[0].sends.size(), 5u);
  EXPECT_TRUE(plan.has_source);
}

}  // namespace
}  // namespace ring::ec_offload
