// The AVX-512 form of dot_kernels.h: a factor is one 8x8 bit matrix (gf2p8affineqb), in GF(2^4) as
// in GF(2^8).
#include <immintrin.h>

#include "ec_offload/dot_kernels.h"
#include "ec_offload/wide_factor.h"
#include "ring/base/check.h"
#include "ring/base/crc32c_fold.h"

namespace ring::ec_offload {
namespace {

// The bytes that `mask` names of all outputs, at an offset: all 64 but at the end.
template <std::size_t count>
RING_TARGET_WIDE_INLINE void Column(const DotArguments& a, std::size_t i, __mmask64 mask) {
  __m512i sums[count];
  for (std::size_t j = 0; j < count; ++j) sums[j] = _mm512_setzero_si512();
  const gf256::Factor* factor = a.factors;
  for (std::size_t c = 0; c < a.input_count; ++c) {
    const __m512i bytes = _mm512_maskz_loadu_epi8(mask, a.inputs[c] + i);
    for (std::size_t j = 0; j < count; ++j, ++factor) {
      sums[j] = _mm512_xor_si512(sums[j], Times(AffineOf(*factor), bytes));
    }
  }
  for (std::size_t j = 0; j < count; ++j) _mm512_mask_storeu_epi8(a.outputs[j] + i, mask, sums[j]);
}

template <std::size_t count>
RING_TARGET_WIDE void Dot(const DotArguments& a) {
  std::size_t i = a.from;
  for (; i + 64 <= a.to; i += 64) Column<count>(a, i, ~__mmask64{0});
  if (i < a.to) Column<count>(a, i, crc32c_fold::TailMask(a.to - i));
}

}  // namespace

void DotWide(const DotArguments& arguments) {
  switch (arguments.output_count) {
    case 1:
      return Dot<1>(arguments);
    case 2:
      return Dot<2>(arguments);
    case 3:
      return Dot<3>(arguments);
    default:
      break;
  }
  RING_CHECK(arguments.output_count == kDotCountMax) << "outputs=" << arguments.output_count;
  Dot<kDotCountMax>(arguments);
}

}  // namespace ring::ec_offload
