// The AVX2 form of dot_kernels.h: 64 bytes of every output at a time, by two nibble table look-ups
// (pshufb) for each factor.
#include <immintrin.h>

#include <cstring>

#include "ec_offload/dot_kernels.h"
#include "ring/base/check.h"

namespace ring::ec_offload {
namespace {

__m256i Load(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
void Store(std::byte* p, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), value);
}
__m256i Table(const std::array<gf256::Element, 16>& products) {
  return _mm256_broadcastsi128_si256(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(products.data())));
}

// 32 * width bytes of all outputs. With `sums`, output 0 is the xor of the inputs.
template <std::size_t count, std::size_t width, bool sums, class LoadInput, class StoreOutput>
inline void Column(const DotArguments& a, LoadInput load, StoreOutput store) {
  const __m256i nibble = _mm256_set1_epi8(0x0f);
  __m256i results[count][width];
  for (auto& result : results) {
    for (__m256i& part : result) part = _mm256_setzero_si256();
  }
  const gf256::Factor* factor = a.factors;
  for (std::size_t c = 0; c < a.input_count; ++c) {
    __m256i low[width], high[width];
    for (std::size_t part = 0; part < width; ++part) {
      const __m256i bytes = load(c, part);
      if constexpr (sums) results[0][part] = _mm256_xor_si256(results[0][part], bytes);
      low[part] = _mm256_and_si256(bytes, nibble);
      high[part] = _mm256_and_si256(_mm256_srli_epi64(bytes, 4), nibble);
    }
    if constexpr (sums) ++factor;
    for (std::size_t j = sums ? 1 : 0; j < count; ++j, ++factor) {
      const __m256i low_table = Table(factor->low_products);
      const __m256i high_table = Table(factor->high_products);
      for (std::size_t part = 0; part < width; ++part) {
        results[j][part] = _mm256_xor_si256(
            results[j][part], _mm256_xor_si256(_mm256_shuffle_epi8(low_table, low[part]),
                                               _mm256_shuffle_epi8(high_table, high[part])));
      }
    }
  }
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t part = 0; part < width; ++part) store(j, part, results[j][part]);
  }
}

template <std::size_t count, bool sums>
void Dot(const DotArguments& a) {
  std::size_t i = a.from;
  const auto load = [&](std::size_t c, std::size_t part) {
    return Load(a.inputs[c] + i + 32 * part);
  };
  const auto store = [&](std::size_t j, std::size_t part, __m256i value) {
    Store(a.outputs[j] + i + 32 * part, value);
  };
  for (; i + 64 <= a.to; i += 64) Column<count, 2, sums>(a, load, store);
  if (i + 32 <= a.to) {
    Column<count, 1, sums>(a, load, store);
    i += 32;
  }
  if (i == a.to) return;
  // The last bytes, through buffers: nothing beyond a block is read or written.
  const std::size_t rest = a.to - i;
  const auto load_rest = [&](std::size_t c, std::size_t) {
    alignas(32) std::byte buffer[32] = {};
    std::memcpy(buffer, a.inputs[c] + i, rest);
    return Load(buffer);
  };
  const auto store_rest = [&](std::size_t j, std::size_t, __m256i value) {
    alignas(32) std::byte buffer[32];
    Store(buffer, value);
    std::memcpy(a.outputs[j] + i, buffer, rest);
  };
  Column<count, 1, sums>(a, load_rest, store_rest);
}

template <std::size_t count>
void Select(const DotArguments& a) {
  return a.first_is_sum ? Dot<count, true>(a) : Dot<count, false>(a);
}

}  // namespace

void DotAvx2(const DotArguments& arguments) {
  switch (arguments.output_count) {
    case 1:
      return Select<1>(arguments);
    case 2:
      return Select<2>(arguments);
    case 3:
      return Select<3>(arguments);
    default:
      break;
  }
  RING_CHECK(arguments.output_count == kDotCountMax) << "outputs=" << arguments.output_count;
  Select<kDotCountMax>(arguments);
}

}  // namespace ring::ec_offload
