#include "ec_offload/schemes/ppr.h"

#include "ec_offload/graph/traffic.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/graph/primitive_counts.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

constexpr std::size_t kSize = 100;

TEST(Ppr, ARepairTakesKMessagesAndTheLogarithmOfSteps) {
  const struct { std::size_t k, m, steps; } kTable[] = {{3, 2, 2}, {6, 3, 3}, {12, 4, 4}};
  for (const auto& row : kTable) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakePprScheme({row.k, row.m}));
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->DegradedRead(kSize, {1}, 1));
    EXPECT_EQ(CountTraffic(graph), (Traffic{row.k, row.k * kSize, row.steps}));
  }
}

TEST(Ppr, HelpersMultiplyAndAddAndTheRequestorAdds) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakePprScheme({6, 3}));
  // Without the first parity: no factor is 1.
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->DegradedRead(kSize, {2, 6}, 2));
  EXPECT_EQ(graph.layers().size(), 3U);
  EXPECT_EQ(PrimitivesOf(graph),
            (PrimitiveCounts{{"ec-send", 4}, {"recv-ec-send", 2}, {"recv-xor", 1}}));
}

TEST(Ppr, ItEncodesAsRs) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakePprScheme({6, 3}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(kSize));
  EXPECT_EQ(PrimitivesOf(graph), (PrimitiveCounts{{"ec-send", 1}, {"recv", 9}}));
}

}  // namespace
}  // namespace ring::ec_offload
