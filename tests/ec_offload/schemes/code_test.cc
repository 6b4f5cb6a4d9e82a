#include "ec_offload/schemes/code.h"

#include <vector>

#include "ec_offload/coding_matrix.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Code, TheGeneratorIsTheIdentityAboveJerasuresMatrix) {
  ASSERT_OK_AND_ASSIGN(const Code code, MakeMdsCode("RS", {6, 3}));
  EXPECT_EQ(code.name, "RS(6,3)");
  EXPECT_EQ(code.data_count(), 6U);
  EXPECT_EQ(code.chunk_count(), 9U);
  EXPECT_EQ(code.generator.SelectRows({0, 1, 2, 3, 4, 5}), Matrix::Identity(6));
  EXPECT_EQ(code.generator.SelectRows({6, 7, 8}), *VandermondeCoding(Field::kGf256, 6, 3));
}

TEST(Code, TakesACodingMatrixOfItsShape) {
  const Matrix coding = *CauchyCoding(Field::kGf16, 4, 2);
  ASSERT_OK_AND_ASSIGN(const Code code, MakeMdsCode("RS", {4, 2, Field::kGf16, coding}));
  EXPECT_EQ(code.generator.SelectRows({4, 5}), coding);
  EXPECT_THAT(MakeMdsCode("RS", {4, 3, Field::kGf16, coding}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("RS(4,3): coding matrix: rows=2 columns=4")));
  EXPECT_THAT(MakeMdsCode("RS", {2, 1, Field::kGf16, Matrix{{1, 17}}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("coefficient=17")));
}

TEST(Code, RefusesSizesThatTheFieldDoesNotHave) {
  for (const auto& [k, m, field] : {std::tuple{0, 2, Field::kGf256},
                                    {2, 0, Field::kGf256},
                                    {253, 4, Field::kGf256},
                                    {13, 4, Field::kGf16}}) {
    const MdsParameters parameters{static_cast<std::size_t>(k), static_cast<std::size_t>(m), field,
                                   std::nullopt};
    EXPECT_THAT(MakeMdsCode("PPR", parameters).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("PPR(")));
  }
}

TEST(Code, FirstSurvivorsArePreferredAndThoseThatNobodyNeedsLeftOut) {
  // Chunk 3 is chunk 0 + chunk 1, chunk 4 all three.
  Code code{"X", Field::kGf256, Matrix::Identity(3)};
  code.generator.AppendRow({1, 1, 0});
  code.generator.AppendRow({1, 1, 1});
  ASSERT_OK_AND_ASSIGN(const Recipe local, Combine(code, {1, 2, 3, 4}, {0}));
  EXPECT_EQ(local.helpers, (std::vector<ChunkId>{1, 3}));
  EXPECT_EQ(local.factors, (Matrix{{1, 1}}));
  ASSERT_OK_AND_ASSIGN(const Recipe both, Combine(code, {1, 3, 4}, {0, 2}));
  EXPECT_EQ(both.helpers, (std::vector<ChunkId>{1, 3, 4}));
  EXPECT_EQ(both.factors, (Matrix{{1, 1, 0}, {0, 1, 1}}));
}

TEST(Code, RefusesByNameWhatSurvivorsDoNotDetermineHoweverManyTheyAre) {
  Code code{"X", Field::kGf256, Matrix::Identity(3)};
  code.generator.AppendRow({1, 1, 0});
  code.generator.AppendRow({2, 2, 0});
  // Three survivors of a code of three, and none knows chunk 2.
  EXPECT_THAT(Combine(code, {1, 3, 4}, {0, 2}).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       "X: chunk 2 cannot be computed from what is left: chunks 1, 3, 4"));
}

}  // namespace
}  // namespace ring::ec_offload
