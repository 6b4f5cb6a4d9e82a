#include "ec_offload/gf256.h"

#include "gtest/gtest.h"

namespace ring::ec_offload::gf256 {
namespace {

// By shifts and the polynomial, from the definition.
unsigned SlowProduct(unsigned a, unsigned b) {
  unsigned product = 0;
  for (int bit = 7; bit >= 0; --bit) {
    product <<= 1;
    if (product > 255) product ^= 0x11d;
    if (((b >> bit) & 1) != 0) product ^= a;
  }
  return product;
}

TEST(Gf256, ProductsFollowThePolynomial) {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      ASSERT_EQ(Multiply(static_cast<Element>(a), static_cast<Element>(b)), SlowProduct(a, b));
    }
  }
}

TEST(Gf256, InverseUndoesProduct) {
  for (unsigned a = 1; a < 256; ++a) {
    const auto element = static_cast<Element>(a);
    ASSERT_EQ(Multiply(element, Inverse(element)), 1);
    ASSERT_EQ(Divide(Multiply(element, 77), element), 77);
  }
  EXPECT_EQ(Inverse(0), 0);
}

}  // namespace
}  // namespace ring::ec_offload::gf256
