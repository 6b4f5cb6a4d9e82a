#include "srs/layout.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace ring::srs {
namespace {

Layout Make(std::uint32_t k, std::uint32_t m, std::uint32_t s, std::uint64_t block_size = 4096) {
  const auto layout = Layout::Create({k, m, s, block_size});
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

// Blocks of SRS(2,1,3) counted from 1, as in the paper: rows {1,4}, {2,5}, {3,6}; shard 1 holds 1
// and 2, and so on.
TEST(Layout, IsFigure1OfThePaper) {
  const Layout layout = Make(2, 1, 3);
  EXPECT_EQ(layout.stripe_block_count(), 6U);
  EXPECT_EQ(layout.blocks_per_shard(), 2U);
  EXPECT_EQ(layout.row_count(), 3U);
  std::vector<std::set<std::uint32_t>> rows(3), shards(3);
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    for (std::uint32_t block = 0; block < 2; ++block) {
      const Position position = layout.Locate(shard, block * 4096);
      rows[position.row].insert(position.stripe_block + 1);
      shards[shard].insert(position.stripe_block + 1);
    }
  }
  EXPECT_EQ(rows, (std::vector<std::set<std::uint32_t>>{{1, 4}, {2, 5}, {3, 6}}));
  EXPECT_EQ(shards, (std::vector<std::set<std::uint32_t>>{{1, 2}, {3, 4}, {5, 6}}));
}

TEST(Layout, StretchedOverKShardsIsPlainReedSolomon) {
  const Layout layout = Make(3, 2, 3);
  EXPECT_EQ(layout.row_count(), 1U);
  EXPECT_EQ(layout.blocks_per_shard(), 1U);
  for (std::uint32_t shard = 0; shard < 3; ++shard) {
    const Position position = layout.Locate(shard, 5 * 4096 + 7);
    EXPECT_EQ(position.column, shard);
    EXPECT_EQ(position.parity_offset, 5U * 4096 + 7);
  }
}

TEST(Layout, EveryRowHasKDistinctShards) {
  for (std::uint32_t s = 2; s <= 16; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      const Layout layout = Make(k, 1, s);
      for (std::uint32_t row = 0; row < layout.row_count(); ++row) {
        std::set<std::uint32_t> shards;
        for (std::uint32_t c = 0; c < k; ++c) shards.insert(layout.BlockOf(3, row, c).shard);
        ASSERT_EQ(shards.size(), k) << "k=" << k << " s=" << s << " row=" << row;
      }
    }
  }
}

// The formulas of the design, word for word, against the tables and the reciprocal.
TEST(Layout, FollowsTheFormulasAtEveryOffset) {
  for (std::uint32_t s = 2; s <= 16; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      const Layout layout = Make(k, 1, s);
      const std::uint64_t block = layout.block_size();
      const std::uint64_t l = layout.stripe_block_count();
      const std::uint64_t end = Layout::kBlockIndexEnd;
      for (std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, l / s, l / s + 1, 7 * l + 3,
                                  std::uint64_t{12345677}, end - 2, end - 1}) {
        for (std::uint32_t shard = 0; shard < s; ++shard) {
          const std::uint64_t offset = index * block + 11;
          const Position position = layout.Locate(shard, offset);
          const std::uint64_t extent_size = l / s * block;
          const std::uint64_t t = shard * (l / s) + offset % extent_size / block;
          ASSERT_EQ(position.extent, offset / extent_size);
          ASSERT_EQ(position.stripe_block, t);
          ASSERT_EQ(position.column, t / (l / k));
          ASSERT_EQ(position.row, t % (l / k));
          ASSERT_EQ(position.parity_offset,
                    (position.extent * (l / k) + position.row) * block + 11);
          ASSERT_EQ(layout.BlockRemainder(offset), block - 11);
          const DataBlock back = layout.BlockOf(position.extent, position.row, position.column);
          ASSERT_EQ(back.shard, shard);
          ASSERT_EQ(back.block, position.block);
          ASSERT_EQ(back.offset, index * block);
        }
      }
    }
  }
}

TEST(Layout, ParityBytesOfAnExtentAreCoveredKTimesExactly) {
  const Layout layout = Make(3, 2, 5);
  std::vector<int> covered(layout.row_count(), 0);
  for (std::uint32_t shard = 0; shard < 5; ++shard) {
    for (std::uint32_t b = 0; b < layout.blocks_per_shard(); ++b) {
      ++covered[layout.Locate(shard, layout.extent_size() * 2 + b * layout.block_size()).row];
    }
  }
  EXPECT_EQ(covered, std::vector<int>(layout.row_count(), 3));
  EXPECT_EQ(layout.extent_size() * 5, layout.parity_extent_size() * 3);
}

TEST(Layout, RefusesWhatValidateRefuses) {
  EXPECT_EQ(Layout::Create({3, 1, 2, 4096}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Layout::Create({2, 1, 3, 16}).ok());
  EXPECT_TRUE(Layout::Create({2, 1, 3, 16}, 1).ok());
}

}  // namespace
}  // namespace ring::srs
