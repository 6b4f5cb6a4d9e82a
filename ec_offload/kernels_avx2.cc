// The AVX2 engine: the build's baseline instruction set. Multiplication by two nibble table
// look-ups (pshufb).
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "ec_offload/kernel_engines.h"
#include "ring/base/crc32c.h"

namespace ring::ec_offload {
namespace {

__m256i Load(const std::uint8_t* p) {
  __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  __asm__("" : "+x"(value));  // opaque: never loaded a second time
  return value;
}
void Store(std::uint8_t* p, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), value);
}

struct NibbleTables {
  __m256i low;
  __m256i high;
};

NibbleTables TablesOf(const gf256::Factor& factor) {
  const auto load = [](const std::array<gf256::Element, 16>& products) {
    return _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(products.data())));
  };
  return {load(factor.low_products), load(factor.high_products)};
}

__m256i Times(const NibbleTables& tables, __m256i value) {
  const __m256i nibble = _mm256_set1_epi8(0x0f);
  const __m256i low = _mm256_and_si256(value, nibble);
  const __m256i high = _mm256_and_si256(_mm256_srli_epi64(value, 4), nibble);
  return _mm256_xor_si256(_mm256_shuffle_epi8(tables.low, low),
                          _mm256_shuffle_epi8(tables.high, high));
}

// Loads and stores of the last `size` < 32 bytes, through a buffer of zeros.
__m256i LoadTail(const std::uint8_t* p, std::size_t size) {
  alignas(32) std::uint8_t buffer[32] = {};
  std::memcpy(buffer, p, size);
  return Load(buffer);
}
void StoreTail(std::uint8_t* p, __m256i value, std::size_t size) {
  alignas(32) std::uint8_t buffer[32];
  _mm256_store_si256(reinterpret_cast<__m256i*>(buffer), value);
  std::memcpy(p, buffer, size);
}

// destination = f(destination, a), 32 bytes at a time.
template <class F>
void Transform(std::uint8_t* destination, const std::uint8_t* a, const std::uint8_t* b,
               std::size_t size, F f) {
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) Store(destination + i, f(Load(a + i), Load(b + i)));
  if (i < size) {
    const std::size_t rest = size - i;
    StoreTail(destination + i, f(LoadTail(a + i, rest), LoadTail(b + i, rest)), rest);
  }
}

void XorCopy(std::uint8_t* destination, const std::uint8_t* a, const std::uint8_t* b,
             std::size_t size) {
  Transform(destination, a, b, size, [](__m256i x, __m256i y) { return _mm256_xor_si256(x, y); });
}

void XorInto(std::uint8_t* destination, const std::uint8_t* source, std::size_t size) {
  XorCopy(destination, destination, source, size);
}

// A chunk that the first-level cache keeps between the two passes.
constexpr std::size_t kChunk = 1024;

std::uint32_t XorIntoCrc(std::uint8_t* destination, const std::uint8_t* source, std::size_t size) {
  alignas(64) std::uint8_t chunk[kChunk];
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < size; i += kChunk) {
    const std::size_t length = std::min(kChunk, size - i);
    crc = Crc32cCopy(chunk, source + i, length, crc);
    XorInto(destination + i, chunk, length);
  }
  return crc;
}

void Multiply(std::uint8_t* destination, const std::uint8_t* source, const gf256::Factor& factor,
              std::size_t size) {
  const NibbleTables tables = TablesOf(factor);
  Transform(destination, source, source, size,
            [&](__m256i x, __m256i) { return Times(tables, x); });
}

void MultiplyAdd(std::uint8_t* destination, const std::uint8_t* source, const gf256::Factor& factor,
                 std::size_t size) {
  const NibbleTables tables = TablesOf(factor);
  Transform(destination, destination, source, size,
            [&](__m256i x, __m256i y) { return _mm256_xor_si256(x, Times(tables, y)); });
}

template <std::size_t count, DeltaMode mode>
struct Avx2Delta {
  static void Chunk(const DeltaArguments& a, const NibbleTables* tables, std::size_t from,
                    std::size_t to) {
    std::size_t i = from;
    for (; i + 32 <= to; i += 32) {
      const __m256i fresh = Load(a.new_bytes + i);
      const __m256i difference = _mm256_xor_si256(Load(a.old_bytes + i), fresh);
      for (std::size_t j = 0; j < count; ++j) Store(a.deltas[j] + i, Times(tables[j], difference));
      if constexpr (WritesSlot(mode)) Store(a.slot + i, fresh);
    }
    if (i == to) return;
    const std::size_t rest = to - i;
    const __m256i fresh = LoadTail(a.new_bytes + i, rest);
    const __m256i difference = _mm256_xor_si256(LoadTail(a.old_bytes + i, rest), fresh);
    for (std::size_t j = 0; j < count; ++j)
      StoreTail(a.deltas[j] + i, Times(tables[j], difference), rest);
    if constexpr (WritesSlot(mode)) StoreTail(a.slot + i, fresh, rest);
  }

  static void Run(const DeltaArguments& a) {
    NibbleTables tables[count];
    for (std::size_t j = 0; j < count; ++j) tables[j] = TablesOf(a.factors[j]);
    std::uint32_t crcs[count] = {};
    std::uint32_t slot_crc = 0;
    for (std::size_t from = 0; from < a.length; from += kChunk) {
      const std::size_t size = std::min(kChunk, a.length - from);
      Chunk(a, tables, from, from + size);
      if constexpr (Sums(mode)) {
        for (std::size_t j = 0; j < count; ++j) crcs[j] = Crc32c(a.deltas[j] + from, size, crcs[j]);
      }
      if constexpr (SumsSlot(mode)) slot_crc = Crc32c(a.slot + from, size, slot_crc);
    }
    if constexpr (Sums(mode)) std::copy_n(crcs, count, a.delta_crcs);
    if constexpr (SumsSlot(mode)) *a.slot_crc = slot_crc;
  }
};

}  // namespace

constinit const KernelEngine kAvx2Engine = {
    "avx2", XorInto, XorIntoCrc, XorCopy, Multiply, MultiplyAdd, SelectDelta<Avx2Delta>};

}  // namespace ring::ec_offload
