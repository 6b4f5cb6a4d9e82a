// ec_offload/gf256.h — the field GF(2^8) with the polynomial x^8+x^4+x^3+x^2+1 (0x11d).
//
// What:      Multiply, Inverse, Divide of elements; the forms in which vector kernels want a
//            constant factor: two 16-entry nibble tables, and the 8x8 bit matrix of gf2p8affineqb.
// Units:     an element is a byte; addition is xor.
// Threads:   pure; tables are compile-time constants.
// Errors:    Inverse(0) and Divide(a, 0) are the caller's error: they give 0.
// Cost:      Multiply: two loads of the logarithm table, one of the exponent table.
// Source:    the polynomial of ISA-L, Jerasure (w=8) and RAID-6.
#ifndef RING_EC_OFFLOAD_GF256_H_
#define RING_EC_OFFLOAD_GF256_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ring::ec_offload::gf256 {

using Element = std::uint8_t;

namespace internal {

struct Tables {
  std::array<Element, 510>
      exponent{};  // 2^i, twice over, so that sums of logarithms need no reduction
  std::array<std::uint8_t, 256> logarithm{};
};

constexpr Tables MakeTables() {
  Tables tables;
  unsigned value = 1;
  for (unsigned i = 0; i < 255; ++i) {
    tables.exponent[i] = static_cast<Element>(value);
    tables.exponent[i + 255] = static_cast<Element>(value);
    tables.logarithm[value] = static_cast<std::uint8_t>(i);
    value <<= 1;
    if (value > 255) value ^= 0x11d;
  }
  return tables;
}
inline constexpr Tables kTables = MakeTables();

}  // namespace internal

constexpr Element Multiply(Element a, Element b) {
  if (a == 0 || b == 0) return 0;
  const unsigned sum =
      static_cast<unsigned>(internal::kTables.logarithm[a]) + internal::kTables.logarithm[b];
  return internal::kTables.exponent[sum];
}

constexpr Element Inverse(Element a) {
  if (a == 0) return 0;
  return internal::kTables.exponent[255U - internal::kTables.logarithm[a]];
}

constexpr Element Divide(Element a, Element b) { return Multiply(a, Inverse(b)); }

// A constant factor in the forms of the kernels.
struct Factor {
  Element value = 0;
  std::uint64_t affine = 0;                 // operand of gf2p8affineqb
  std::array<Element, 16> low_products{};   // value * n
  std::array<Element, 16> high_products{};  // value * (n << 4)
};

// The 8x8 bit matrix of a map of bytes that is linear over xor.
template <class Map>
constexpr std::uint64_t AffineOf(Map map) {
  // Output bit i is the parity of the input masked by byte 7-i: bit j of that mask is bit i of
  // map(2^j).
  std::uint64_t affine = 0;
  for (unsigned i = 0; i < 8; ++i) {
    std::uint64_t mask = 0;
    for (unsigned j = 0; j < 8; ++j) {
      const unsigned image = map(static_cast<Element>(1U << j));
      mask |= static_cast<std::uint64_t>((image >> i) & 1) << j;
    }
    affine |= mask << (8 * (7 - i));
  }
  return affine;
}

constexpr Factor MakeFactor(Element value) {
  Factor factor;
  factor.value = value;
  for (unsigned n = 0; n < 16; ++n) {
    factor.low_products[n] = Multiply(value, static_cast<Element>(n));
    factor.high_products[n] = Multiply(value, static_cast<Element>(n << 4));
  }
  factor.affine = AffineOf([value](Element byte) constexpr { return Multiply(value, byte); });
  return factor;
}

}  // namespace ring::ec_offload::gf256

#endif  // RING_EC_OFFLOAD_GF256_H_
