#include "ec_offload/graph/traffic.h"

#include <bit>
#include <utility>

#include "gtest/gtest.h"
#include "tests/ec_offload/graph/combination.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

constexpr NodeId kRoot = 50;
constexpr std::size_t kSize = 60;

TEST(Traffic, ANodeReceivesOneMessageAStep) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddStar(builder, MakeCombination(5), kRoot);
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(CountTraffic(graph), (Traffic{5, 5 * kSize, 5}));
}

TEST(Traffic, ANodeSendsOneMessageAStep) {
  GraphBuilder builder(Field::kGf256, kSize);
  AddScatter(builder, kRoot, Matrix{{1, 0}, {0, 1}, {1, 1}, {1, 2}},
             {{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
  EXPECT_EQ(CountTraffic(graph), (Traffic{4, 4 * kSize, 4}));
}

TEST(Traffic, ABinomialTreeTakesTheLogarithmOfItsParticipants) {
  for (std::size_t k = 1; k <= 40; ++k) {
    GraphBuilder builder(Field::kGf256, kSize);
    AddBinomialTree(builder, MakeCombination(k), kRoot);
    ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
    // ceil(log2(k + 1))
    EXPECT_EQ(CountTraffic(graph), (Traffic{k, k * kSize, std::bit_width(k)})) << "k=" << k;
  }
}

TEST(Traffic, SlicesOfAChainFollowOneAnother) {
  for (const std::size_t slices : {1UL, 2UL, 6UL, 15UL}) {
    GraphBuilder builder(Field::kGf256, kSize);
    AddChain(builder, MakeCombination(4), kRoot, kSize / slices, ChainOrder::kBasic);
    ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).Build());
    EXPECT_EQ(CountTraffic(graph), (Traffic{4 * slices, 4 * kSize, 4 + slices - 1}));
  }
}

}  // namespace
}  // namespace ring::ec_offload
