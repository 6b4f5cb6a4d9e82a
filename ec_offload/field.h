// ec_offload/field.h — the two fields of the erasure codes, chosen at run time.
//
// What:      Field; FieldOfWidth, the field that a calculator of symbol width w uses; Multiply and
//            Inverse of elements; MultiplyByte, a factor times what a byte of a block holds; the
//            kernels' forms of a factor.
// Units:     an element of kGf16 is 0 to 15, of kGf256 a byte. A byte of a block holds two elements
//            of kGf16.
// Threads:   pure.
// Errors:    no field: nullopt. Inverse of 0 is 0, and the caller's error.
// Source:    NIC drivers tell w = 8 from the rest only: w = 1, 2 and 4 are all nibbles of GF(16).
#ifndef RING_EC_OFFLOAD_FIELD_H_
#define RING_EC_OFFLOAD_FIELD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ec_offload/gf16.h"
#include "ec_offload/gf256.h"

namespace ring::ec_offload {

enum class Field : std::uint8_t { kGf16, kGf256 };

// w is 1, 2, 4 or 8.
constexpr std::optional<Field> FieldOfWidth(int w) {
  if (w == 8) return Field::kGf256;
  if (w == 1 || w == 2 || w == 4) return Field::kGf16;
  return std::nullopt;
}

constexpr std::size_t ElementCount(Field field) { return field == Field::kGf16 ? 16 : 256; }

constexpr std::uint8_t Multiply(Field field, std::uint8_t a, std::uint8_t b) {
  return field == Field::kGf16 ? gf16::Multiply(a, b) : gf256::Multiply(a, b);
}

constexpr std::uint8_t Inverse(Field field, std::uint8_t a) {
  return field == Field::kGf16 ? gf16::Inverse(a) : gf256::Inverse(a);
}

constexpr std::uint8_t MultiplyByte(Field field, std::uint8_t factor, std::uint8_t byte) {
  return field == Field::kGf16 ? gf16::MultiplyByte(factor, byte) : gf256::Multiply(factor, byte);
}

constexpr gf256::Factor MakeFactor(Field field, std::uint8_t value) {
  return field == Field::kGf16 ? gf16::MakeFactor(value) : gf256::MakeFactor(value);
}

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_FIELD_H_
