// ec_offload/gf16.h — the field GF(2^4) with the polynomial x^4+x+1 (0x13), two symbols a byte.
//
// What:      Multiply and Inverse of symbols; MultiplyByte, a symbol times both nibbles of a byte;
//            the forms in which vector kernels want a constant factor, those of GF(2^8).
// Units:     a symbol is 0 to 15; a byte holds two that know nothing of each other, the low nibble
//            and the high one. Addition is xor.
// Threads:   pure; tables are compile-time constants.
// Errors:    Inverse(0) is the caller's error: it gives 0. Bits above a symbol's four are ignored.
// Cost:      Multiply: one load.
// Source:    the polynomial of Jerasure and GF-Complete (w=4) and of the NIC's calculator.
#ifndef RING_EC_OFFLOAD_GF16_H_
#define RING_EC_OFFLOAD_GF16_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "ec_offload/gf256.h"

namespace ring::ec_offload::gf16 {

using Element = std::uint8_t;

namespace internal {

constexpr Element SlowProduct(unsigned a, unsigned b) {
  unsigned product = 0;
  for (unsigned bit = 0; bit < 4; ++bit) {
    if (((b >> bit) & 1) != 0) product ^= a << bit;
  }
  for (unsigned bit = 7; bit >= 4; --bit) {
    if (((product >> bit) & 1) != 0) product ^= 0x13U << (bit - 4);
  }
  return static_cast<Element>(product);
}

constexpr std::array<std::array<Element, 16>, 16> MakeProducts() {
  std::array<std::array<Element, 16>, 16> products{};
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) products[a][b] = SlowProduct(a, b);
  }
  return products;
}
inline constexpr std::array<std::array<Element, 16>, 16> kProducts = MakeProducts();

}  // namespace internal

constexpr Element Multiply(Element a, Element b) { return internal::kProducts[a & 15][b & 15]; }

constexpr Element Inverse(Element a) {
  Element power = 1;  // a^14, because a^15 is 1
  for (int i = 0; i < 14; ++i) power = Multiply(power, a);
  return power;
}

// factor times the low nibble, and factor times the high one.
constexpr std::uint8_t MultiplyByte(Element factor, std::uint8_t byte) {
  return static_cast<std::uint8_t>(Multiply(factor, byte & 15) |
                                   (Multiply(factor, static_cast<Element>(byte >> 4)) << 4));
}

// A constant factor in the forms of the kernels, which see a byte's map and not its field.
constexpr gf256::Factor MakeFactor(Element value) {
  gf256::Factor factor;
  factor.value = value & 15;
  for (unsigned n = 0; n < 16; ++n) {
    factor.low_products[n] = Multiply(value, static_cast<Element>(n));
    factor.high_products[n] = static_cast<std::uint8_t>(factor.low_products[n] << 4);
  }
  factor.affine =
      gf256::AffineOf([value](std::uint8_t byte) constexpr { return MultiplyByte(value, byte); });
  return factor;
}

}  // namespace ring::ec_offload::gf16

#endif  // RING_EC_OFFLOAD_GF16_H_
