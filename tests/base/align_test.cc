#include "ring/base/align.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace ring {
namespace {

TEST(Align, AlignUpGivesTheLeastMultipleNotBelow) {
  for (std::uint64_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (std::uint64_t value = 0; value<3 * alignment; value += alignment> 64 ? 37 : 1) {
      const std::uint64_t up = AlignUp(value, alignment);
      EXPECT_GE(up, value);
      EXPECT_LT(up - value, alignment);
      EXPECT_EQ(up % alignment, 0u);
      EXPECT_EQ(IsAligned(value, alignment), up == value);
    }
  }
}

TEST(Align, AlignUpWorksUpToTheLastMultiple) {
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() & ~std::uint64_t{4095};
  EXPECT_EQ(AlignUp(last, 4096), last);
  EXPECT_EQ(AlignUp(last - 1, 4096), last);
}

static_assert(AlignUp(65, kCacheLine) == 128);

}  // namespace
}  // namespace ring
