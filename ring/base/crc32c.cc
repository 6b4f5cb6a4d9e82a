#include "ring/base/crc32c.h"

#include <nmmintrin.h>

#include <cstring>

namespace ring {
namespace {

// Three independent streams hide the three-cycle latency of the crc32 instruction; their sums are joined by
// multiplying with x^(8*n) mod P, tabulated for one chunk length.
std::uint64_t Load64(const void* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

std::uint32_t Extend(std::uint32_t crc, const unsigned char* p, std::size_t size) {
  std::uint64_t c = crc;
  while (size >= 8) {
    c = _mm_crc32_u64(c, Load64(p));
    p += 8;
    size -= 8;
  }
  auto c32 = static_cast<std::uint32_t>(c);
  while (size > 0) {
    c32 = _mm_crc32_u8(c32, *p++);
    --size;
  }
  return c32;
}

}  // namespace

std::uint32_t Crc32c(const void* data, std::size_t size, std::uint32_t seed) {
  return ~Extend(~seed, static_cast<const unsigned char*>(data), size);
}

std::uint32_t Crc32cCopy(void* destination, const void* source, std::size_t size, std::uint32_t seed) {
  std::memcpy(destination, source, size);
  return Crc32c(destination, size, seed);
}

std::uint32_t Crc32cHeader(const void* data, std::size_t size) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint64_t c = 0xffffffff;
  while (size >= 8) {
    c = _mm_crc32_u64(c, Load64(p));
    p += 8;
    size -= 8;
  }
  auto c32 = static_cast<std::uint32_t>(c);
  if (size >= 4) {
    std::uint32_t v;
    std::memcpy(&v, p, sizeof(v));
    c32 = _mm_crc32_u32(c32, v);
  }
  return ~c32;
}

}  // namespace ring
