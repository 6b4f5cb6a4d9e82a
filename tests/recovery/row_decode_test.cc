#include "ring/recovery/row_decode.h"

#include "gtest/gtest.h"
#include "tests/cluster/view_builders.h"

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
    return CompleteParities(view_, GroupId(0), memgest, *layout, extent, row);
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

}  // namespace
}  // namespace ring::recovery
