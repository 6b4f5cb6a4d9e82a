// ec_offload/wide_factor.h — multiplication of 64 bytes by a constant factor, for the AVX-512 forms
// of kernels.h and dot_kernels.h.
//
// What:      AffineOf: the factor's 8x8 bit matrix in each lane; Times: the product, in the field
//            that the factor was made for. Only functions marked RING_TARGET_WIDE may call them.
// Threads:   pure.
// Errors:    none; a processor without GFNI ends in an illegal instruction.
// Cost:      one gf2p8affineqb for 64 bytes.
#ifndef RING_EC_OFFLOAD_WIDE_FACTOR_H_
#define RING_EC_OFFLOAD_WIDE_FACTOR_H_

#include <immintrin.h>

#include "ec_offload/gf256.h"
#include "ring/base/crc32c_fold.h"

namespace ring::ec_offload {

RING_TARGET_WIDE_INLINE __m512i AffineOf(const gf256::Factor& factor) {
  const __m512i affine = _mm512_set1_epi64(static_cast<long long>(factor.affine));
#if defined(__clang__)
  // clang 14 does not scale the displacement of gf2p8affineqb's broadcast operand: the matrix came
  // from beside the factor, and parities were wrong. Opaque, the broadcast stays apart.
  return crc32c_fold::ReadOnce(affine);
#else
  return affine;
#endif
}

RING_TARGET_WIDE_INLINE __m512i Times(__m512i affine, __m512i bytes) {
  return _mm512_gf2p8affine_epi64_epi8(bytes, affine, 0);
}

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_WIDE_FACTOR_H_
