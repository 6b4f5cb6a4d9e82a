#include "memgest/size_class.h"

#include "gtest/gtest.h"

namespace ring::memgest {
namespace {

TEST(SizeClass, IsTheLeastThatHoldsTheLength) {
  for (std::uint32_t length = 0; length <= 2 * 1024 * 1024; length += length < 70000 ? 1 : 977) {
    const std::uint8_t size_class = ClassOf(length);
    ASSERT_TRUE(IsSizeClass(size_class)) << length;
    ASSERT_GE(CellsOf(size_class) * kCellSize, length);
    if (size_class > 0) {
      ASSERT_LT(CellsOf(size_class - 1) * kCellSize, length);
    }
  }
}

TEST(SizeClass, WastesAtMostAnEighthAboveEightCells) {
  for (std::uint32_t cells = 8; cells <= kSlotCellsMax; ++cells) {
    ASSERT_LE(CellsOf(ClassOf(cells * kCellSize)) - cells, cells / 8) << cells;
  }
}

TEST(SizeClass, EveryPowerOfTwoIsAClass) {
  for (std::uint32_t cells = 1; cells <= kSlotCellsMax; cells *= 2) {
    EXPECT_EQ(CellsOf(ClassOf(cells * kCellSize)), cells);
    EXPECT_EQ(SlotsPerBlock(ClassOf(cells * kCellSize), cells), 1u);
  }
}

}  // namespace
}  // namespace ring::memgest
