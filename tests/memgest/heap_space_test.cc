#include "memgest/heap_space.h"

#include "gtest/gtest.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;

TEST(HeapSpace, ChunksAppearWhenTouchedAndAreZero) {
  TwinDevice device;
  HeapSpace heap(&device);
  EXPECT_FALSE(heap.Has(0, 1));
  EXPECT_EQ(heap.reserved_bytes(), 0u);
  ASSERT_OK(heap.Ensure(5 * HeapSpace::kChunkCells, 64));
  EXPECT_TRUE(heap.Has(5 * HeapSpace::kChunkCells, HeapSpace::kChunkCells));
  EXPECT_FALSE(heap.Has(0, 1));
  EXPECT_FALSE(heap.Has(5 * HeapSpace::kChunkCells, HeapSpace::kChunkCells + 1));
  EXPECT_EQ(heap.reserved_bytes(), HeapSpace::kChunkSize);
  const std::byte* bytes = heap.At(5 * HeapSpace::kChunkCells + 7);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(bytes[i], std::byte{0});  // S3
}

TEST(HeapSpace, OnlyLaterChunksAskForHugePages) {
  TwinDevice device;
  HeapSpace heap(&device);
  ASSERT_OK(heap.Ensure(0, 1));
  EXPECT_EQ(device.huge_count, 0u);
  constexpr std::uint32_t kYoung = HeapSpace::kSmallPageChunks * HeapSpace::kChunkCells;
  ASSERT_OK(heap.Ensure(0, kYoung));
  EXPECT_EQ(device.huge_count, 0u);
  ASSERT_OK(heap.Ensure(0, kYoung + 1));
  EXPECT_EQ(device.huge_count, 1u);
}

TEST(HeapSpace, RefusesWhatIsPastTwoToThe32Cells) {
  TwinDevice device;
  HeapSpace heap(&device);
  EXPECT_OK(heap.Ensure(0xffffffff, 1));
  EXPECT_THAT(heap.Ensure(0xffffffff, 2), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(HeapSpace, AFailedAllocationLeavesWhatWasThere) {
  for (std::size_t n = 1; n <= 2; ++n) {
    TwinDevice device;
    device.fail_from = n;
    HeapSpace heap(&device);
    EXPECT_THAT(heap.Ensure(0, 2 * HeapSpace::kChunkCells),
                StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(heap.Has(0, 1), n > 1);
    EXPECT_FALSE(heap.Has(HeapSpace::kChunkCells, 1));
    device.fail_from = ~std::size_t{0};
    EXPECT_OK(heap.Ensure(0, 2 * HeapSpace::kChunkCells));
  }
}

TEST(HeapSpace, GivesItsPagesBack) {
  TwinDevice device;
  {
    HeapSpace heap(&device);
    ASSERT_OK(heap.Ensure(0, 2 * HeapSpace::kChunkCells));
  }
  EXPECT_EQ(device.discarded, 2 * HeapSpace::kChunkSize);
}

}  // namespace
}  // namespace ring::memgest
