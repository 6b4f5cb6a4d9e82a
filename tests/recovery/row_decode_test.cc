// What a block is decoded from, and by which parities: L7, S6, S7.
#include "ring/recovery/row_decode.h"

#include <bit>

#include "gtest/gtest.h"
#include "srs/generator.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

// Parities of SRS32 are roles 3 and 4; every shard's record names both as complete.
class CompleteParitiesTest : public ::testing::Test {
 protected:
  CompleteParitiesTest() {
    for (cluster::GroupView& group : view_.groups) {
      for (std::uint32_t i = 0; i < group.shards.size(); ++i) {
        cluster::NormalRecord& normal = group.shards[i].normal;
        normal.epoch = group.epoch;
        for (std::size_t x = 0; x < group.roles.size(); ++x)
          normal.holders.push_back({group.roles[x], group.incarnations[x]});
        const std::uint32_t all = 1u << i | 0b11000;
        normal.memgests = {{MemgestId(2), all, all, false, {}}};
      }
    }
  }
  std::uint32_t Parities(std::uint32_t extent, std::uint32_t row = 0) {
    const protocol::MemgestDescriptor& memgest = *view_.FindMemgest(MemgestId(2));
    const auto layout = srs::Layout::Create({3, 2, 3, memgest.block_size});
    return CompleteParities(view_, {GroupId(0), memgest.id, extent, row}, memgest, *layout);
  }
  cluster::NormalRecord& normal(std::size_t shard) { return view_.groups[0].shards[shard].normal; }

  cluster::View view_ = cluster::TestView();
};

TEST_F(CompleteParitiesTest, L7WhoIsNotCompleteForAShardOfTheRowIsNoneOfThem) {
  EXPECT_EQ(Parities(0), 0b11u);
  normal(1).memgests[0].complete &= ~(1u << 4);
  EXPECT_EQ(Parities(0), 0b01u);
  normal(2).holders[3].incarnation = Incarnation(77);  // another start has the role by now
  EXPECT_EQ(Parities(0), 0b00u);
}

TEST_F(CompleteParitiesTest, S6ARebuiltParityIsOneForTheExtentsThatItCountedForFromTheBeginning) {
  normal(0).memgests[0].complete &= ~(1u << 4);
  normal(0).memgests[0].active_from = {{Role(4), 5}};
  EXPECT_EQ(Parities(4), 0b01u);
  EXPECT_EQ(Parities(5), 0b11u);
  normal(2).memgests[0].complete &= ~(1u << 4);
  normal(2).memgests[0].active_from = {{Role(4), 7}};
  EXPECT_EQ(Parities(6), 0b01u) << "each shard of the row has an extent of its own";
  EXPECT_EQ(Parities(7), 0b11u);
  normal(2).memgests[0].active &= ~(1u << 4);
  EXPECT_EQ(Parities(7), 0b01u);
}

// A parity that lacks a living column only will be one: its shard sends what it holds.
TEST_F(CompleteParitiesTest, S7OfSomeColumnsTheRecordsOfOtherShardsSayNothing) {
  normal(2).memgests[0].complete &= ~(1u << 4);
  const protocol::MemgestDescriptor& memgest = *view_.FindMemgest(MemgestId(2));
  const auto layout = srs::Layout::Create({3, 2, 3, memgest.block_size});
  std::uint32_t of_shard_2 = 0;
  for (std::uint32_t column = 0; column < 3; ++column) {
    if (layout->BlockOf(0, 0, column).shard == 2) of_shard_2 |= 1u << column;
  }
  ASSERT_EQ(std::popcount(of_shard_2), 1);
  const RowName row = {GroupId(0), memgest.id, 0, 0};
  EXPECT_EQ(CompleteParities(view_, row, memgest, *layout, of_shard_2), 0b01u);
  EXPECT_EQ(CompleteParities(view_, row, memgest, *layout, ~of_shard_2), 0b11u);
}

// The columns that it takes.
std::uint32_t ColumnsOf(const srs::Recipe& recipe) {
  std::uint32_t mask = 0;
  for (const srs::Term& term : recipe.terms)
    mask |= term.survivor.is_parity ? 0 : 1u << term.survivor.index;
  return mask;
}

TEST(RowDecodeTest, S7OneLossTakesTheAskedParityAndNoOther) {
  ASSERT_OK_AND_ASSIGN(const ec_offload::Matrix generator, srs::MakeGenerator(3, 3));
  for (std::uint32_t own = 0; own < 3; ++own) {
    const std::optional<srs::Recipe> recipe = PlanBlock(generator, 1, 0b010, 0b111, own);
    ASSERT_TRUE(recipe.has_value());
    EXPECT_EQ(ParitiesOf(*recipe), 1u << own);
    EXPECT_EQ(ColumnsOf(*recipe), 0b101u);
  }
}

TEST(RowDecodeTest, S7AsManyParitiesAsLossesAndOnlyThoseThatHaveEverything) {
  ASSERT_OK_AND_ASSIGN(const ec_offload::Matrix generator, srs::MakeGenerator(4, 3));
  for (std::uint32_t lost = 1; lost < 16; ++lost) {
    for (std::uint32_t complete = 1; complete < 8; ++complete) {
      const auto column = static_cast<std::uint32_t>(std::countr_zero(lost));
      const auto own = static_cast<std::uint32_t>(std::countr_zero(complete));
      const std::optional<srs::Recipe> recipe = PlanBlock(generator, column, lost, complete, own);
      ASSERT_EQ(recipe.has_value(), std::popcount(lost) <= std::popcount(complete))
          << "lost=" << lost << " complete=" << complete;
      if (!recipe.has_value()) continue;
      EXPECT_EQ(ParitiesOf(*recipe) & ~complete, 0u);
      EXPECT_EQ(std::popcount(ParitiesOf(*recipe)), std::popcount(lost));
      EXPECT_EQ(ColumnsOf(*recipe) & lost, 0u);
    }
  }
}

TEST(RowDecodeTest, S12TheAskedParityIsNotTakenWhenItIsLeftOut) {
  ASSERT_OK_AND_ASSIGN(const ec_offload::Matrix generator, srs::MakeGenerator(3, 2));
  const std::optional<srs::Recipe> recipe = PlanBlock(generator, 1, 0b010, 0b10, 0);
  ASSERT_TRUE(recipe.has_value());
  EXPECT_EQ(ParitiesOf(*recipe), 0b10u);
  EXPECT_FALSE(PlanBlock(generator, 1, 0b110, 0b10, 0).has_value());
}

}  // namespace
}  // namespace ring::recovery
