// The AVX-512 form of dot_kernels.h: a factor is one 8x8 bit matrix (gf2p8affineqb), in GF(2^4) as
// in GF(2^8).
#include <immintrin.h>

#include "ec_offload/dot_kernels.h"
#include "ec_offload/wide_factor.h"
#include "ring/base/check.h"
#include "ring/base/crc32c_fold.h"

namespace ring::ec_offload {
namespace {

// Columns of 64 bytes that share a load of the factors, which are otherwise as many as the products
// themselves. Accumulators of four outputs and two inputs then fill 26 of the 32 registers.
constexpr std::size_t kWidth = 4;

RING_TARGET_WIDE_INLINE __m512i Sum(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

// The bytes that `mask` names, at an offset: all 64 but at the end.
RING_TARGET_WIDE_INLINE __m512i Load(const std::byte* at, __mmask64 mask) {
  return _mm512_maskz_loadu_epi8(mask, at);
}

// 64 * width bytes of all outputs at an offset; of the last 64, those that `mask` names. With
// `sums`, output 0 is the xor of the inputs. Inputs go in pairs, so that one instruction adds two.
template <std::size_t count, std::size_t width, bool sums>
RING_TARGET_WIDE_INLINE void Columns(const DotArguments& a, std::size_t i, __mmask64 mask) {
  __m512i results[count][width];
  const gf256::Factor* factor = a.factors;
  std::size_t c = a.input_count % 2;
  for (std::size_t part = 0; part < width; ++part) {
    const __m512i bytes = c == 0 ? _mm512_setzero_si512() : Load(a.inputs[0] + i + 64 * part, mask);
    for (std::size_t j = 0; j < count; ++j)
      results[j][part] = c == 0 || (sums && j == 0) ? bytes : Times(AffineOf(factor[j]), bytes);
  }
  for (factor += c * count; c < a.input_count; c += 2, factor += 2 * count) {
    __m512i first[width], second[width];
    for (std::size_t part = 0; part < width; ++part) {
      first[part] = Load(a.inputs[c] + i + 64 * part, mask);
      second[part] = Load(a.inputs[c + 1] + i + 64 * part, mask);
      if constexpr (sums) results[0][part] = Sum(results[0][part], first[part], second[part]);
    }
    for (std::size_t j = sums ? 1 : 0; j < count; ++j) {
      const __m512i first_factor = AffineOf(factor[j]);
      const __m512i second_factor = AffineOf(factor[count + j]);
      for (std::size_t part = 0; part < width; ++part) {
        results[j][part] = Sum(results[j][part], Times(first_factor, first[part]),
                               Times(second_factor, second[part]));
      }
    }
  }
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t part = 0; part < width; ++part)
      _mm512_mask_storeu_epi8(a.outputs[j] + i + 64 * part, mask, results[j][part]);
  }
}

template <std::size_t count, bool sums>
RING_TARGET_WIDE void Dot(const DotArguments& a) {
  constexpr __mmask64 kAll = ~__mmask64{0};
  std::size_t i = a.from;
  for (; i + 64 * kWidth <= a.to; i += 64 * kWidth) Columns<count, kWidth, sums>(a, i, kAll);
  for (; i + 64 <= a.to; i += 64) Columns<count, 1, sums>(a, i, kAll);
  if (i < a.to) Columns<count, 1, sums>(a, i, crc32c_fold::TailMask(a.to - i));
}

template <std::size_t count>
void Select(const DotArguments& a) {
  return a.first_is_sum ? Dot<count, true>(a) : Dot<count, false>(a);
}

}  // namespace

void DotWide(const DotArguments& arguments) {
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
