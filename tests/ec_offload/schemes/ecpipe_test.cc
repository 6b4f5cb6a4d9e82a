#include "ec_offload/schemes/ecpipe.h"

#include "ec_offload/graph/traffic.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(EcPipe, ARepairTakesKMessagesASliceAndOneStepAHelperOrSlice) {
  for (const auto& [k, m] : {std::pair{3UL, 2UL}, {6UL, 3UL}, {12UL, 4UL}}) {
    for (const std::size_t slices : {1UL, 4UL, 7UL}) {
      ASSERT_OK_AND_ASSIGN(const auto scheme, MakeEcPipeScheme({{k, m}, 16, ChainOrder::kBasic}));
      ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->DegradedRead(16 * slices, {0}, 0));
      EXPECT_EQ(CountTraffic(graph), (Traffic{k * slices, k * slices * 16, k + slices - 1}));
    }
  }
}

TEST(EcPipe, SlicesAreOf32KiBAndASmallerChunkIsWhole) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeEcPipeScheme({{3, 2}}));
  for (const auto& [size, slices] :
       {std::pair{1UL, 1UL}, {32768UL, 1UL}, {32769UL, 2UL}, {1048576UL, 32UL}}) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->DegradedRead(size, {1}, 1));
    EXPECT_EQ(graph.edges().size(), 3 * slices);
    EXPECT_EQ(CountTraffic(graph).size, 3 * size);
  }
}

TEST(EcPipe, RefusesSlicesOfNothing) {
  EXPECT_THAT(MakeEcPipeScheme({{3, 2}, 0, ChainOrder::kBasic}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slice_size=0")));
}

}  // namespace
}  // namespace ring::ec_offload
