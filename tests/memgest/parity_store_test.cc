#include "memgest/parity_store.h"

#include <cstring>
#include <vector>

#include "ec_offload/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "srs/codec.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
constexpr std::uint32_t kBlock = 4096;
constexpr std::uint32_t kBlockCells = kBlock / 64;

protocol::MemgestDescriptor Descriptor(int k, int m) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = MemgestId(6);
  descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
  descriptor.k = static_cast<std::uint8_t>(k);
  descriptor.m = static_cast<std::uint8_t>(m);
  descriptor.block_size = kBlock;
  return descriptor;
}

TEST(ParityStore, S1ParityIsTheEncodeOfWhatWasApplied) {
  struct Shape {
    int k, m, s;
  };
  for (const Shape shape : {Shape{2, 1, 3}, Shape{2, 2, 3}, Shape{3, 2, 3}, Shape{4, 3, 6}}) {
    SeededRandom random(ring::testing::SeedFor("parity"));
    const auto descriptor = Descriptor(shape.k, shape.m);
    srs::SrsParameters parameters;
    parameters.k = static_cast<std::uint32_t>(shape.k);
    parameters.m = static_cast<std::uint32_t>(shape.m);
    parameters.s = static_cast<std::uint32_t>(shape.s);
    parameters.block_size = kBlock;
    auto codec = srs::Codec::Create(parameters);
    ASSERT_OK(codec.status());
    const srs::Layout& layout = codec->layout();
    constexpr std::uint32_t kExtents = 3;
    const std::size_t heap = kExtents * layout.extent_size();
    std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(shape.s),
                                             std::vector<std::byte>(heap));
    TwinDevice device;
    const int parity_index = shape.m - 1;
    ParityStore store(&device, descriptor, shape.s, parity_index);
    for (std::uint64_t index = 1; index <= 2000; ++index) {
      const auto shard = static_cast<std::uint16_t>(random.Below(parameters.s));
      const auto block = static_cast<std::uint32_t>(random.Below(heap / kBlock));
      const auto cell = static_cast<std::uint32_t>(random.Below(kBlockCells));
      const auto length = static_cast<std::uint32_t>(1 + random.Below(kBlock - cell * 64));
      const std::uint64_t offset = std::uint64_t{block} * kBlock + cell * 64;
      // S3: the delta is against the bytes that are there, whatever they are.
      std::vector<std::byte> delta(length);
      std::byte* old_bytes = data[shard].data() + offset;
      for (std::byte& byte : delta) byte = static_cast<std::byte>(random.Next64());
      for (std::uint32_t i = 0; i < length; ++i) old_bytes[i] ^= delta[i];
      const std::uint32_t column = layout.Locate(shard, offset).column;
      const auto factor = codec->coefficient(static_cast<std::uint32_t>(parity_index), column);
      ec_offload::Multiply(delta.data(), delta.data(), factor, length);
      ASSERT_OK(store.Apply(ShardId(shard), static_cast<std::uint32_t>(offset / 64), delta.data(),
                            length, index));
    }
    for (std::uint32_t extent = 0; extent < kExtents; ++extent) {
      for (std::uint32_t row = 0; row < layout.row_count(); ++row) {
        std::vector<std::byte> expected(kBlock);
        for (std::uint32_t column = 0; column < parameters.k; ++column) {
          const srs::DataBlock at = layout.BlockOf(extent, row, column);
          codec->AddContribution(expected.data(), static_cast<std::uint32_t>(parity_index),
                                 data[at.shard].data() + at.offset, column, kBlock);
        }
        const ParityStore::Row got = store.ReadRow(extent, row);
        ASSERT_NE(got.bytes, nullptr);
        ASSERT_EQ(std::memcmp(got.bytes, expected.data(), kBlock), 0);
      }
    }
    EXPECT_EQ(store.extent_count(), kExtents);
  }
}

TEST(ParityStore, S2ARowTellsTheLastIndexThatTouchedEachColumn) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);  // l = 6: rows {0,3},{1,4},{2,5}
  std::byte delta[64] = {};
  EXPECT_EQ(store.ReadRow(0, 0).bytes, nullptr);
  EXPECT_THAT(store.ReadRow(0, 0).last_touch, ElementsAre(0, 0));
  ASSERT_OK(store.Apply(ShardId(0), 0, delta, 64, 11));                // t = 0: row 0, column 0
  ASSERT_OK(store.Apply(ShardId(1), kBlockCells, delta, 64, 5));       // t = 3: row 0, column 1
  ASSERT_OK(store.Apply(ShardId(0), kBlockCells + 1, delta, 64, 12));  // t = 1: row 1, column 0
  EXPECT_THAT(store.ReadRow(0, 0).last_touch, ElementsAre(11, 5));
  EXPECT_THAT(store.ReadRow(0, 1).last_touch, ElementsAre(12, 0));
  EXPECT_THAT(store.ReadRow(0, 2).last_touch, ElementsAre(0, 0));
  EXPECT_THAT(store.ReadRow(1, 0).last_touch, ElementsAre(0, 0));
}

// S3: of two shards, whose bytes in the row are the same ones.
TEST(ParityStore, AChunkThatIsAllZeroGoesBackAndReadsAsZero) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);  // l = 6: 3 rows an extent
  constexpr std::uint32_t kExtent = HeapSpace::kChunkCells / (3 * kBlockCells) + 1;
  const std::uint32_t cells = kExtent * 2 * kBlockCells;  // 2 blocks a shard and extent
  const std::vector<std::byte> delta(kBlock, std::byte{5});
  ASSERT_OK(store.Apply(ShardId(0), cells, delta.data(), kBlock, 1));
  ASSERT_OK(store.Apply(ShardId(1), cells + kBlockCells, delta.data(), kBlock, 1));
  ASSERT_OK(store.Apply(ShardId(0), cells + kBlockCells, delta.data(), kBlock, 2));
  store.ReleaseZeros(ShardId(0), cells, kBlock);
  store.FreeEmptied();
  EXPECT_EQ(device.freed, 0u) << "another row has bytes";
  ASSERT_OK(store.Apply(ShardId(0), cells + kBlockCells, delta.data(), kBlock, 3));
  store.ReleaseZeros(ShardId(0), cells + kBlockCells, kBlock);
  EXPECT_EQ(device.freed, 0u) << "while entries are folded";
  store.FreeEmptied();
  EXPECT_EQ(device.freed, HeapSpace::kChunkSize);
  EXPECT_EQ(store.ReadRow(kExtent, 0).bytes, nullptr);
  EXPECT_THAT(store.ReadRow(kExtent, 0).last_touch, ElementsAre(1, 1));
  ASSERT_OK(store.Apply(ShardId(2), cells, delta.data(), kBlock, 1));
  EXPECT_EQ(*store.ReadRow(kExtent, 1).bytes, std::byte{5});
}

TEST(ParityStore, RefusesARangeThatCrossesABlock) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);
  std::vector<std::byte> delta(kBlock + 64);
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(store.Apply(ShardId(0), 1, delta.data(), kBlock, 1), StatusIs(kInvalid));
  EXPECT_THAT(store.Apply(ShardId(0), 0, delta.data(), kBlock + 1, 1), StatusIs(kInvalid));
  EXPECT_THAT(store.Apply(ShardId(3), 0, delta.data(), 64, 1), StatusIs(kInvalid));
  EXPECT_OK(store.Apply(ShardId(0), 0, delta.data(), kBlock, 1));
  // A stripe has s/k times as many parity rows as blocks of a shard: the parity ends first.
  EXPECT_THAT(store.Apply(ShardId(0), 0xffffffff, delta.data(), 64, 2), StatusIs(kInvalid));
  EXPECT_OK(store.Apply(ShardId(0), 0xa0000000, delta.data(), 64, 2));
}

// Shard 0 had used one block of extent 0 (two blocks an extent), when this parity was new.
TEST(ParityStore, S6CoversWhatWasBasedAndWhatIsBehindE0) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);
  EXPECT_TRUE(store.CoversRow(0, 0) && store.Covers(ShardId(0)));
  store.BeginRebuild(ShardId(0), kBlockCells);
  EXPECT_FALSE(store.Holds(ShardId(0)));
  EXPECT_FALSE(store.Covers(ShardId(0)));
  EXPECT_TRUE(store.Covers(ShardId(1)));
  EXPECT_FALSE(store.CoversRow(0, 0)) << "block 0 of shard 0";
  EXPECT_FALSE(store.CoversRow(0, 1)) << "block 1, of the same extent";
  EXPECT_TRUE(store.CoversRow(0, 2)) << "shards 1 and 2";
  EXPECT_TRUE(store.CoversRow(1, 0));

  std::vector<std::byte> ones(kBlock, std::byte{1});
  const auto byte_at = [&](std::uint32_t extent, std::uint32_t row, std::size_t at) {
    const ParityStore::Row got = store.ReadRow(extent, row);
    return got.bytes == nullptr ? 0 : static_cast<int>(got.bytes[at]);
  };
  ASSERT_OK(store.Apply(ShardId(0), 0, ones.data(), kBlock, 7));
  EXPECT_EQ(byte_at(0, 0, 0), 0) << "its base is still to come";
  EXPECT_THAT(store.ReadRow(0, 0).last_touch, ElementsAre(7, 0));
  ASSERT_OK(store.Apply(ShardId(0), 2 * kBlockCells, ones.data(), kBlock, 8));
  EXPECT_EQ(byte_at(1, 0, 0), 1) << "behind E0";

  ASSERT_OK(store.Base(ShardId(0), 0, ones.data(), 1024, 7));
  EXPECT_EQ(byte_at(0, 0, 1023), 1);
  EXPECT_EQ(byte_at(0, 0, 1024), 0);
  EXPECT_FALSE(store.CoversRow(0, 0));
  // An entry that is based in part counts in that part.
  std::vector<std::byte> twos(kBlock, std::byte{2});
  ASSERT_OK(store.Apply(ShardId(0), 8, twos.data(), 1024, 9));
  EXPECT_EQ(byte_at(0, 0, 511), 1);
  EXPECT_EQ(byte_at(0, 0, 512), 3);
  EXPECT_EQ(byte_at(0, 0, 1023), 3);
  EXPECT_EQ(byte_at(0, 0, 1024), 0);
  // What is based is not counted again, not even in part.
  ASSERT_OK(store.Base(ShardId(0), 0, ones.data(), 1024, 7));
  ASSERT_OK(store.Base(ShardId(0), 8, ones.data(), 1024, 9));
  EXPECT_EQ(byte_at(0, 0, 1023), 3);
  EXPECT_EQ(byte_at(0, 0, 1024), 1);
  EXPECT_EQ(byte_at(0, 0, 1535), 1);
  EXPECT_EQ(byte_at(0, 0, 1536), 0);
  // Zeros need no bytes.
  ASSERT_OK(store.Base(ShardId(0), 24, nullptr, kBlock - 1536, 9));
  EXPECT_TRUE(store.CoversRow(0, 0));
  EXPECT_FALSE(store.CoversRow(0, 1));
  ASSERT_OK(store.Base(ShardId(0), kBlockCells, nullptr, kBlock, 0));
  EXPECT_TRUE(store.CoversRow(0, 1) && store.Covers(ShardId(0)));
  EXPECT_THAT(store.ReadRow(0, 0).last_touch, ElementsAre(9, 0));
}

TEST(ParityStore, S6CoversNothingOfAShardWhoseMetadataIsStillToCome) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);
  store.Await(ShardId(0));
  EXPECT_TRUE(store.awaits(ShardId(0)));
  EXPECT_FALSE(store.Covers(ShardId(0)) || store.CoversRow(0, 0) || store.CoversRow(1000, 0));
  EXPECT_TRUE(store.CoversRow(0, 2)) << "shards 1 and 2";
  store.BeginRebuild(ShardId(0), 0);
  EXPECT_TRUE(store.Covers(ShardId(0)) && store.CoversRow(0, 0));
}

TEST(ParityStore, S6RefusesABaseThatIsNoneOfTheRebuild) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  std::vector<std::byte> bytes(2 * kBlock);
  const auto base = [&](std::uint16_t shard, std::uint32_t cell, std::uint32_t length) {
    return store.Base(ShardId(shard), cell, nullptr, length, 0);
  };
  store.BeginRebuild(ShardId(0), 2 * kBlockCells);
  EXPECT_THAT(base(3, 0, 64), StatusIs(kInvalid)) << "no such shard";
  EXPECT_THAT(base(0, 0, 0), StatusIs(kInvalid));
  EXPECT_THAT(base(0, 0, 100), StatusIs(kInvalid)) << "no whole cells";
  EXPECT_THAT(base(0, 0, 2 * kBlock), StatusIs(kInvalid)) << "two blocks";
  EXPECT_THAT(base(0, 1, kBlock), StatusIs(kInvalid)) << "crosses a block";
  EXPECT_THAT(base(0, 1, 64), StatusIs(kInvalid)) << "a gap";
  EXPECT_THAT(base(0, 2 * kBlockCells, 64), StatusIs(kInvalid)) << "behind E0";
  EXPECT_EQ(store.based_cells(ShardId(0)), 0u);
  EXPECT_OK(base(1, 64, 64)) << "of a shard of which nothing is missing: nothing to do";
  EXPECT_FALSE(store.Holds(ShardId(1)));
}

TEST(ParityStore, WithoutMemoryNothingIsFolded) {
  TwinDevice device;
  ParityStore store(&device, Descriptor(2, 1), 3, 0);
  device.fail_from = 0;
  std::byte delta[64] = {};
  EXPECT_THAT(store.Apply(ShardId(0), 0, delta, 64, 1),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(store.ReadRow(0, 0).last_touch, ElementsAre(0, 0));
  EXPECT_EQ(store.extent_count(), 0u);
}

}  // namespace
}  // namespace ring::memgest
