#include "ec_offload/schemes/scheme.h"

#include <limits>
#include <set>
#include <vector>

#include "ec_offload/coding_matrix.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/schemes/all_schemes.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Scheme, EveryPartOfAStripeHasANodeOfItsOwn) {
  const Placement placement(5);
  std::set<NodeId> nodes = {placement.agent(), placement.requestor()};
  for (ChunkId chunk = 0; chunk < 5; ++chunk) {
    EXPECT_EQ(placement.Home(chunk), (ChunkPlace{chunk, chunk}));
    nodes.insert({placement.Home(chunk).node, placement.Replacement(chunk)});
  }
  EXPECT_EQ(nodes.size(), placement.node_count());
  EXPECT_EQ(*nodes.rbegin(), placement.node_count() - 1);
  EXPECT_EQ(placement.Names().at(placement.Replacement(3)), "replacement of node 3");
}

TEST(Scheme, RefusesErasuresThatAreNone) {
  for (const MdsScheme kind : kMdsSchemes) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(kind, {3, 2}));
    EXPECT_THAT(scheme->Decode(10, {}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nothing is lost")));
    EXPECT_THAT(scheme->Decode(10, {1, 5}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("erasure 5: name each lost chunk once, from 0 to 4")));
    EXPECT_THAT(scheme->Decode(10, {1, 1}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("erasure 1")));
    EXPECT_THAT(scheme->Decode(10, {std::numeric_limits<ChunkId>::max()}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(scheme->DegradedRead(10, {1, 2}, 0).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("chunk 0 is not among the erasures")));
  }
}

TEST(Scheme, RefusesChunksOfNothing) {
  for (const MdsScheme kind : kMdsSchemes) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(kind, {3, 2}));
    for (const absl::Status& status : {scheme->Encode(0).status(), scheme->Decode(0, {1}).status(),
                                       scheme->DegradedRead(0, {1}, 1).status()}) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk_size=0")));
    }
  }
}

TEST(Scheme, TakesErasuresInAnyOrder) {
  for (const MdsScheme kind : kMdsSchemes) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(kind, {6, 3}));
    const Stripe stripe(scheme->code(), 11);
    EXPECT_TRUE(RunsRight(scheme->Decode(11, {7, 0, 4}), stripe)) << scheme->name();
  }
}

TEST(Scheme, WorksOverTheCodingMatrixOfAStore) {
  for (const MdsScheme kind : kMdsSchemes) {
    const Matrix coding = *CauchyCoding(Field::kGf256, 5, 3);
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(kind, {5, 3, Field::kGf256, coding}));
    const Stripe stripe(scheme->code(), 23);
    EXPECT_TRUE(RunsRight(scheme->Encode(23), stripe)) << scheme->name();
    EXPECT_TRUE(RunsRight(scheme->Decode(23, {0, 3, 6}), stripe)) << scheme->name();
  }
}

// A coding matrix with zeros: the code repairs some double losses, and helpers have zero factors.
TEST(Scheme, WhatACodeRepairsIsDecidedByRank) {
  const Matrix coding = {{1, 1, 0, 0}, {0, 0, 1, 1}};
  for (const MdsScheme kind : kMdsSchemes) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(kind, {4, 2, Field::kGf256, coding}));
    const Stripe stripe(scheme->code(), 23);
    EXPECT_TRUE(RunsRight(scheme->Encode(23), stripe)) << scheme->name();
    EXPECT_TRUE(RunsRight(scheme->Decode(23, {0, 2}), stripe)) << scheme->name();
    EXPECT_THAT(scheme->Decode(23, {0, 1}).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunks 0, 1 cannot be computed")));
    EXPECT_TRUE(RunsRight(scheme->DegradedRead(23, {0, 1, 2}, 2), stripe)) << scheme->name();
  }
}

TEST(Scheme, OneDataChunkIsCopied) {
  for (const MdsScheme kind : kMdsSchemes) {
    ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(kind, {1, 2}));
    const Stripe stripe(scheme->code(), 17);
    EXPECT_TRUE(RunsRight(scheme->Encode(17), stripe)) << scheme->name();
    EXPECT_TRUE(RunsRight(scheme->Decode(17, {0, 1}), stripe)) << scheme->name();
  }
}

}  // namespace
}  // namespace ring::ec_offload
