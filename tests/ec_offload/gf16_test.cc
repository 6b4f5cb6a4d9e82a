#include "ec_offload/gf16.h"

#include "ec_offload/field.h"
#include "gtest/gtest.h"

namespace ring::ec_offload {
namespace {

TEST(Gf16, PowersOfTwoRunThroughAllSymbolsByThePolynomial) {
  unsigned value = 1, seen = 0;
  for (int i = 0; i < 15; ++i) {
    seen |= 1U << value;
    unsigned next = value << 1;
    if (next > 15) next ^= 0x13;
    EXPECT_EQ(gf16::Multiply(static_cast<std::uint8_t>(value), 2), next);
    value = next;
  }
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(seen, 0xfffeU);
}

TEST(Gf16, MultiplicationIsAFields) {
  for (unsigned i = 0; i < 16; ++i) {
    const auto a = static_cast<std::uint8_t>(i);
    EXPECT_EQ(gf16::Multiply(a, 1), a);
    EXPECT_EQ(gf16::Multiply(a, gf16::Inverse(a)), a == 0 ? 0 : 1);
    for (unsigned j = 0; j < 16; ++j) {
      const auto b = static_cast<std::uint8_t>(j);
      EXPECT_EQ(gf16::Multiply(a, b), gf16::Multiply(b, a));
      for (unsigned l = 0; l < 16; ++l) {
        const auto c = static_cast<std::uint8_t>(l);
        EXPECT_EQ(gf16::Multiply(gf16::Multiply(a, b), c), gf16::Multiply(a, gf16::Multiply(b, c)));
        EXPECT_EQ(gf16::Multiply(a, b ^ c), gf16::Multiply(a, b) ^ gf16::Multiply(a, c));
      }
    }
  }
}

// The bit matrix of gf2p8affineqb, by its definition.
unsigned ApplyAffine(std::uint64_t affine, unsigned byte) {
  unsigned result = 0;
  for (unsigned i = 0; i < 8; ++i) {
    const auto mask = static_cast<unsigned>(affine >> (8 * (7 - i))) & 0xff;
    result |= (static_cast<unsigned>(__builtin_popcount(mask & byte)) & 1) << i;
  }
  return result;
}

TEST(Gf16, EveryFormOfAFactorIsTheSameMapOfBytesInBothFields) {
  for (const Field field : {Field::kGf16, Field::kGf256}) {
    for (unsigned value = 0; value < 256; ++value) {
      const gf256::Factor factor = MakeFactor(field, static_cast<std::uint8_t>(value));
      for (unsigned byte = 0; byte < 256; ++byte) {
        const unsigned expected =
            MultiplyByte(field, static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(byte));
        ASSERT_EQ(factor.low_products[byte & 15] ^ factor.high_products[byte >> 4], expected);
        ASSERT_EQ(ApplyAffine(factor.affine, byte), expected);
      }
    }
  }
}

TEST(Gf16, WidthsBelowEightAreAllNibbles) {
  for (const int w : {1, 2, 4}) EXPECT_EQ(FieldOfWidth(w), Field::kGf16);
  EXPECT_EQ(FieldOfWidth(8), Field::kGf256);
  for (const int w : {-1, 0, 3, 5, 7, 9, 16, 32}) EXPECT_EQ(FieldOfWidth(w), std::nullopt);
}

}  // namespace
}  // namespace ring::ec_offload
