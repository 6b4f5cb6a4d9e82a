#include "memgest/memgest.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/parity_store.h"
#include "tests/memgest/twin_device.h"

namespace ring::memgest {
namespace {

TEST(Memgest, S4EveryBlockOfACodedHeapHasAPlaceAtTheParities) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  for (int s = 2; s <= 8; ++s) {
    for (std::uint8_t k = 2; k <= s; ++k) {
      for (const std::uint32_t block_size : {protocol::kBlockSizeMin, protocol::kBlockSizeMax}) {
        protocol::MemgestDescriptor descriptor;
        descriptor.id = MemgestId(1);
        descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
        descriptor.k = k;
        descriptor.m = 1;
        descriptor.block_size = block_size;
        Memgest memgest(&device, descriptor, ShardId(0), s, 1, &lines);
        const srs::Layout& layout = memgest.codec().layout();
        const std::uint64_t limit = memgest.allocator().block_limit();
        ASSERT_GT(limit, 0u);
        ASSERT_EQ(limit % layout.blocks_per_shard(), 0u);
        for (std::uint32_t shard = 0; shard < static_cast<std::uint32_t>(s); ++shard) {
          for (std::uint64_t block = limit - layout.blocks_per_shard(); block < limit; ++block) {
            const std::uint64_t at = layout.Locate(shard, block * block_size).parity_offset;
            EXPECT_LE(at + block_size, ParityStore::kSpaceSize) << "s=" << s << " k=" << int{k};
          }
        }
        // No extent less than what fits.
        EXPECT_GT((limit / layout.blocks_per_shard() + 1) * layout.parity_extent_size(),
                  ParityStore::kSpaceSize);
      }
    }
  }
}

TEST(Memgest, S12EachSourceOfABlockIsNamedAndItsOwnColumnIsNone) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  protocol::MemgestDescriptor descriptor;
  descriptor.id = MemgestId(1);
  descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
  descriptor.k = 3;
  descriptor.m = 2;
  descriptor.block_size = protocol::kBlockSizeMin;
  Memgest memgest(&device, descriptor, ShardId(1), 3, 2, &lines);
  ASSERT_EQ(memgest.source_count(), 5u);
  const std::vector<std::uint32_t> masks = {1, 0, 4, 8, 16};
  const std::vector<std::string> names = {"shard=0 block=7", "shard=1 block=7", "shard=2 block=7",
                                          "parity=0", "parity=1"};
  for (std::uint32_t i = 0; i < memgest.source_count(); ++i) {
    EXPECT_EQ(memgest.SourceMask(7, i), masks[i]);
    EXPECT_EQ(memgest.SourceName(7, i), names[i]);
  }
  descriptor.m = 1;
  const Memgest alone(&device, descriptor, ShardId(1), 3, 2, &lines);
  EXPECT_EQ(alone.source_count(), 0u) << "there is no parity to spare";
}

}  // namespace
}  // namespace ring::memgest
