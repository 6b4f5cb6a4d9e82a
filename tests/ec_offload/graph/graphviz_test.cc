#include "ec_offload/graph/graphviz.h"

#include <utility>

#include "ec_offload/graph/layout.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/graph/combination.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

TEST(Graphviz, DrawsMachinesAsBoxesAndLayersAsRanks) {
  GraphBuilder builder(Field::kGf256, 10);
  AddBinomialTree(builder, MakeCombination(3), 50);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(ToGraphviz(graph, {{50, "requestor"}}), R"(digraph ec {
  rankdir=LR;
  newrank=true;
  node [shape=box];
  subgraph cluster_0 {
    label="node 0";
    v1 [label="ec-send\nreads c0"];
  }
  subgraph cluster_1 {
    label="node 1";
    v2 [label="recv-ec-send\nreads c1"];
  }
  subgraph cluster_2 {
    label="node 2";
    v3 [label="ec-send\nreads c2"];
  }
  subgraph cluster_50 {
    label="requestor";
    v0 [label="recv-xor\nkeeps c100"];
  }
  {rank=same; v1; v3;}
  {rank=same; v2;}
  {rank=same; v0;}
  v1 -> v0 [label="2"];
  v2 -> v0 [label="3 1"];
  v3 -> v2 [label="4"];
}
)");
}

TEST(Graphviz, NamesTheBytesOfASlice) {
  GraphBuilder builder(Field::kGf256, 10);
  AddChain(builder, MakeCombination(1), 50, 6, ChainOrder::kBasic);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  const std::string text = ToGraphviz(graph);
  EXPECT_NE(text.find("reads c0[6..10)"), std::string::npos) << text;
  EXPECT_NE(text.find("keeps c100[0..6)"), std::string::npos) << text;
}

}  // namespace
}  // namespace ring::ec_offload
