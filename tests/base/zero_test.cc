#include "ring/base/zero.h"

#include <string>

#include "gtest/gtest.h"

namespace ring {
namespace {

TEST(IsZero, OneBitAnywhereIsNot) {
  EXPECT_TRUE(IsZero(nullptr, 0));
  for (const std::size_t size : {1u, 2u, 63u, 64u, 4096u}) {
    std::string bytes(size, '\0');
    EXPECT_TRUE(IsZero(bytes.data(), size));
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      bytes[at] = 4;
      EXPECT_FALSE(IsZero(bytes.data(), size)) << "size=" << size << " at=" << at;
      bytes[at] = 0;
    }
  }
}

}  // namespace
}  // namespace ring
