#include "ec_offload/schemes/lrc.h"

#include <algorithm>
#include <utility>

#include "ec_offload/graph/traffic.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/graph/primitive_counts.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr std::size_t kSize = 13;

// Each group repairs one of its own, the globals the rest: what no code of this shape exceeds.
bool RepairableInPrinciple(const LrcParameters& p, std::uint64_t lost) {
  const auto has = [&](std::size_t chunk) { return static_cast<std::size_t>((lost >> chunk) & 1); };
  std::size_t rest = 0;
  for (std::size_t g = 0; g < p.l; ++g) {
    std::size_t in_group = has(p.k + g);
    for (std::size_t j = 0; j < p.k / p.l; ++j) in_group += has(g * (p.k / p.l) + j);
    if (in_group > 1) rest += in_group - 1;
  }
  for (std::size_t e = 0; e < p.r; ++e) rest += has(p.k + p.l + e);
  return rest <= p.r;
}

// Decodes every set of up to l + r losses that can be repaired; gives how many there are.
std::size_t DecodeEveryLoss(const LrcParameters& p) {
  const auto made = MakeLrcScheme(p);
  EXPECT_OK(made);
  const Scheme& scheme = **made;
  const Stripe stripe(scheme.code(), kSize);
  EXPECT_TRUE(RunsRight(scheme.Encode(kSize), stripe));
  std::size_t decoded = 0;
  for (std::size_t size = 1; size <= p.l + p.r; ++size) {
    const std::uint64_t end = std::uint64_t{1} << (p.k + p.l + p.r);
    for (std::uint64_t lost = FirstSubset(size); lost < end; lost = NextSubset(lost)) {
      const auto graph = scheme.Decode(kSize, ChunksOf(lost));
      if (!RepairableInPrinciple(p, lost)) {
        EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kDataLoss));
        continue;
      }
      EXPECT_TRUE(RunsRight(graph, stripe)) << "lost " << ChunkNames(ChunksOf(lost));
      EXPECT_TRUE(graph.ok() && ReadsSurvivorsAlone(*graph, lost));
      EXPECT_LE(graph->sources().size(), p.k);
      if (::testing::Test::HasFailure()) return decoded;
      ++decoded;
    }
  }
  return decoded;
}

TEST(Lrc, EveryLossThatCanBeRepairedInPrincipleIsDecoded) {
  EXPECT_EQ(DecodeEveryLoss({4, 2, 2}), 152U);
  EXPECT_EQ(DecodeEveryLoss({6, 2, 2}), 355U);
  EXPECT_EQ(DecodeEveryLoss({12, 2, 2}), 2264U);
  EXPECT_EQ(DecodeEveryLoss({4, 2, 2, Field::kGf16}), 152U);
  EXPECT_EQ(DecodeEveryLoss({6, 3, 1, Field::kGf16}), DecodeEveryLoss({6, 3, 1}));
}

TEST(Lrc, EncodingSendsEveryChunkOnce) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeLrcScheme({12, 2, 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(kSize));
  EXPECT_EQ(CountTraffic(graph), (Traffic{16, 16 * kSize, 16}));
  EXPECT_EQ(PrimitivesOf(graph), (PrimitiveCounts{{"ec-send", 1}, {"recv", 16}}));
}

TEST(Lrc, AGroupRepairsItselfByXor) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeLrcScheme({12, 2, 2}));
  const Stripe stripe(scheme->code(), kSize);
  for (ChunkId lost = 0; lost < 14; ++lost) {
    const auto graph = scheme->DegradedRead(kSize, {lost}, lost);
    ASSERT_TRUE(RunsRight(graph, stripe));
    EXPECT_EQ(CountTraffic(*graph), (Traffic{6, 6 * kSize, 6}));
    EXPECT_EQ(PrimitivesOf(*graph), (PrimitiveCounts{{"send", 6}, {"recv-xor", 1}}));
    const bool first_group = lost < 6 || lost == 12;
    for (const ChunkPlace& place : graph->sources())
      EXPECT_EQ(place.chunk < 6 || place.chunk == 12, first_group);
  }
}

TEST(Lrc, AGlobalParityComesFromTheData) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeLrcScheme({12, 2, 2}));
  for (const ChunkId lost : {14U, 15U}) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Decode(kSize, {lost}));
    EXPECT_EQ(CountTraffic(graph), (Traffic{12, 12 * kSize, 12}));
    EXPECT_EQ(graph.sources().back(), (ChunkPlace{11, 11}));
  }
}

TEST(Lrc, GroupsThatRepairThemselvesDoNotWaitForEachOther) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeLrcScheme({6, 2, 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Decode(kSize, {1, 7}));
  EXPECT_EQ(PrimitivesOf(graph), (PrimitiveCounts{{"send", 6}, {"recv-xor", 2}}));
  // Two of one group: the data of the other, and a global.
  ASSERT_OK_AND_ASSIGN(const Graph two, scheme->Decode(kSize, {0, 1}));
  EXPECT_EQ(PrimitivesOf(two), (PrimitiveCounts{{"send", 6}, {"recv-ec", 1}}));
}

TEST(Lrc, AChunkIsReadThroughItsGroupWhereTheRestIsBeyondRepair) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeLrcScheme({6, 2, 2}));
  const Stripe stripe(scheme->code(), kSize);
  const std::vector<ChunkId> lost = {0, 3, 4, 5, 8, 9};
  EXPECT_THAT(scheme->Decode(kSize, lost).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("LRC(6,2,2): chunks 3, 4, 5, 8, 9 cannot be computed from what "
                                 "is left: chunks 1, 2, 6, 7")));
  EXPECT_TRUE(RunsRight(scheme->DegradedRead(kSize, lost, 0), stripe));
}

TEST(Lrc, RefusesParametersThatMakeNoCode) {
  for (const LrcParameters& p : {LrcParameters{0, 1, 1},
                                 {6, 0, 2},
                                 {6, 4, 2},
                                 {6, 2, 0},
                                 {256, 2, 2},
                                 {16, 2, 2, Field::kGf16}}) {
    EXPECT_THAT(MakeLrcScheme(p).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("l divides k")));
  }
}

TEST(Lrc, RefusesACodeThatMissesALossAndNamesIt) {
  EXPECT_THAT(MakeLrcScheme({12, 2, 3}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("LRC(12,2,3) over a field of 256 elements does not repair the "
                                 "loss of chunks ")));
  EXPECT_THAT(MakeLrcScheme({6, 2, 2, Field::kGf16}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("over a field of 16")));
  for (const LrcParameters& p : {LrcParameters{8, 2, 2}, {12, 3, 2}, {6, 3, 2}, {6, 2, 3}})
    EXPECT_OK(MakeLrcScheme(p));
}

TEST(Lrc, RefusesACodeWithTooManyLossesToTry) {
  for (const LrcParameters& p : {LrcParameters{24, 4, 4}, {64, 4, 2}, {60, 60, 200}}) {
    EXPECT_THAT(MakeLrcScheme(p).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 200000 sets")));
  }
}

}  // namespace
}  // namespace ring::ec_offload
