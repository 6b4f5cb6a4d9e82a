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

TEST(HeapSpace, OnlyLaterChunksOfAWellUsedHeapAskForHugePages) {
  constexpr std::uint32_t kYoung = HeapSpace::kSmallPageChunks * HeapSpace::kChunkCells;
  for (const bool dense : {false, true}) {
    TwinDevice device;
    HeapSpace heap(&device);
    ASSERT_OK(heap.Ensure(0, 1));
    EXPECT_EQ(device.huge_count, 0u);
    ASSERT_OK(heap.Ensure(0, kYoung));
    EXPECT_EQ(device.huge_count, 0u);
    heap.Touch(0, dense ? kYoung / 4 * 3 : kYoung / 4 * 3 - 64);
    ASSERT_OK(heap.Ensure(0, kYoung + 1));
    EXPECT_EQ(device.huge_count, dense ? 1u : 0u);
    EXPECT_EQ(heap.huge(kYoung), dense);
    EXPECT_FALSE(heap.huge(0));
  }
}

TEST(HeapSpace, CountsTouchedPagesOnce) {
  TwinDevice device;
  HeapSpace heap(&device);
  ASSERT_OK(heap.Ensure(0, 2 * HeapSpace::kChunkCells));
  heap.Touch(63, 2);
  heap.Touch(64, 1);
  heap.Touch(70, 0);
  EXPECT_EQ(heap.touched_bytes(), 2u * 4096);
  heap.Touch(HeapSpace::kChunkCells - 1, 2);
  EXPECT_EQ(heap.touched_bytes(), 4u * 4096);
  EXPECT_TRUE(heap.Touched(1));
  EXPECT_FALSE(heap.Touched(2));
  EXPECT_FALSE(heap.Touched(1u << 20)) << "past what is there";
}

TEST(HeapSpace, OfHugePagesAllIsResident) {
  TwinDevice device;
  HeapSpace heap(&device);
  constexpr std::uint32_t kYoung = HeapSpace::kSmallPageChunks * HeapSpace::kChunkCells;
  ASSERT_OK(heap.Ensure(0, kYoung));
  heap.Touch(0, kYoung);
  EXPECT_EQ(heap.resident_bytes(), std::uint64_t{kYoung} * 64);
  ASSERT_OK(heap.Ensure(kYoung, 1));
  EXPECT_EQ(heap.resident_bytes(), std::uint64_t{kYoung} * 64);
  heap.Touch(kYoung, 1);
  EXPECT_EQ(heap.resident_bytes(), std::uint64_t{kYoung} * 64 + HeapSpace::kChunkSize);
}

TEST(HeapSpace, WhatMembersMayHoldIsNeitherTouchedNorResident) {
  TwinDevice device;
  HeapSpace heap(&device);
  ASSERT_OK(heap.Ensure(0, HeapSpace::kChunkCells));
  heap.Touch(0, 1);
  heap.MarkElsewhere(0, 4 * HeapSpace::kPageCells);
  EXPECT_EQ(heap.touched_bytes(), 4096u);
  EXPECT_EQ(heap.resident_bytes(), 4096u);
  EXPECT_EQ(heap.held_bytes(), 4u * 4096);
  EXPECT_TRUE(heap.Held(0) && heap.Held(3));
  EXPECT_FALSE(heap.Touched(3) || heap.Held(4) || heap.Held(1u << 20));
  heap.Touch(HeapSpace::kPageCells, 1);
  EXPECT_EQ(heap.touched_bytes(), 2u * 4096);
  EXPECT_EQ(heap.held_bytes(), 4u * 4096) << "counted twice";
  heap.Release(0, 3 * HeapSpace::kPageCells);
  EXPECT_FALSE(heap.Held(0) || heap.Held(1) || heap.Held(2));
  EXPECT_EQ(heap.held_bytes(), 4096u);
}

TEST(HeapSpace, WhatMembersMayHoldIsKnownWhereThereIsNoMemory) {
  TwinDevice device;
  HeapSpace heap(&device);
  constexpr std::uint32_t kChunk = HeapSpace::kChunkCells;
  heap.MarkElsewhere(kChunk, 2 * kChunk);
  EXPECT_EQ(heap.reserved_bytes(), 0u);
  EXPECT_EQ(heap.held_bytes(), 2 * HeapSpace::kChunkSize);
  EXPECT_FALSE(heap.Has(kChunk, 1));
  ASSERT_OK(heap.Ensure(kChunk, 1));
  EXPECT_EQ(heap.held_bytes(), 2 * HeapSpace::kChunkSize) << "memory is not what was given back";
  EXPECT_FALSE(heap.FreeEmpty(1));
  heap.Release(kChunk, 2 * kChunk);
  EXPECT_EQ(heap.held_bytes(), 0u);
  EXPECT_TRUE(heap.FreeEmpty(1));
}

TEST(HeapSpace, S3WhatItReleasesReadsAsZero) {
  TwinDevice device;
  HeapSpace heap(&device);
  constexpr std::uint32_t kBorder = HeapSpace::kChunkCells;
  ASSERT_OK(heap.Ensure(0, 2 * kBorder));
  heap.Touch(kBorder - 128, 256);
  for (std::uint32_t cell = kBorder - 128; cell < kBorder + 128; ++cell) {
    heap.At(cell)[5] = std::byte{7};
  }
  heap.Release(kBorder - 64, 128);
  EXPECT_EQ(heap.At(kBorder - 65)[5], std::byte{7});
  EXPECT_EQ(heap.At(kBorder - 64)[5], std::byte{0});
  EXPECT_EQ(heap.At(kBorder + 63)[5], std::byte{0});
  EXPECT_EQ(heap.At(kBorder + 64)[5], std::byte{7});
  EXPECT_EQ(heap.touched_bytes(), 2u * 4096);
  EXPECT_EQ(device.discarded, 2u * 4096);
  heap.Release(5 * kBorder, 64);  // what is not there is zero anyway
}

TEST(HeapSpace, AnEmptyChunkGoesBackUnlessItIsTheFirst) {
  TwinDevice device;
  HeapSpace heap(&device);
  constexpr std::uint32_t kChunk = HeapSpace::kChunkCells;
  ASSERT_OK(heap.Ensure(0, 4 * kChunk));
  heap.Touch(kChunk + 5, 1);
  heap.At(kChunk + 5)[0] = std::byte{7};
  heap.MarkElsewhere(2 * kChunk + 64, 64);
  for (const std::uint32_t chunk : {0u, 1u, 2u, 4u, 99u}) EXPECT_FALSE(heap.FreeEmpty(chunk));
  EXPECT_EQ(device.freed, 0u);
  EXPECT_TRUE(heap.FreeEmpty(3));
  EXPECT_FALSE(heap.FreeEmpty(3)) << "it is gone already";
  heap.Release(kChunk, kChunk);
  heap.Release(2 * kChunk, kChunk);
  EXPECT_TRUE(heap.FreeEmpty(1));
  EXPECT_TRUE(heap.FreeEmpty(2));
  EXPECT_EQ(heap.reserved_bytes(), HeapSpace::kChunkSize);
  EXPECT_EQ(device.reserved, HeapSpace::kChunkSize);
  EXPECT_FALSE(heap.Has(kChunk, 1));
  EXPECT_FALSE(heap.Held(kChunk / 64));
  heap.Release(kChunk, kChunk);  // what is not there is zero anyway
  ASSERT_OK(heap.Ensure(kChunk, 64));
  EXPECT_EQ(heap.At(kChunk + 5)[0], std::byte{0});  // S3
  EXPECT_EQ(heap.reserved_bytes(), 2 * HeapSpace::kChunkSize);
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

TEST(HeapSpace, GivesItsMemoryBack) {
  TwinDevice device;
  {
    HeapSpace heap(&device);
    ASSERT_OK(heap.Ensure(0, 2 * HeapSpace::kChunkCells));
  }
  EXPECT_EQ(device.freed, 2 * HeapSpace::kChunkSize);
}

}  // namespace
}  // namespace ring::memgest
