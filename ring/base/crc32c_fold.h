// ring/base/crc32c_fold.h — CRC-32C by carry-less multiplication, for kernels that sum bytes as
// they pass.
//
// What:      Folding constants, and inline steps on 512-bit states: start, fold in 64 bytes, join,
//            finish. Only functions marked RING_TARGET_WIDE may call the steps, after
//            CpuHasWideVectors() said yes.
// Shape:     a state of four 128-bit lanes, congruent (mod P) to the bytes summed so far. Folding
//            by d bytes multiplies it by x^(8 d). `streams` states take turns over 64-byte blocks
//            to hide the latency.
// Threads:   pure.
// Errors:    none.
// Cost:      two carry-less multiplications and one xor for 64 bytes.
// Source:    Gopal et al. (Intel, 2009); bit-reflected: the constant for x^n is reflect(x^n mod P)
//            << 1.
#ifndef RING_BASE_CRC32C_FOLD_H_
#define RING_BASE_CRC32C_FOLD_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define RING_TARGET_WIDE \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,pclmul,vpclmulqdq,gfni,sse4.2")))
#define RING_TARGET_WIDE_INLINE RING_TARGET_WIDE __attribute__((always_inline)) inline

namespace ring::crc32c_fold {

inline bool CpuHasWideVectors() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("gfni");
}

// reflect(x^exponent mod P) << 1.
constexpr std::uint64_t FoldConstant(unsigned exponent) {
  std::uint32_t v = 0x80000000;
  for (unsigned i = 0; i < exponent; ++i) v = (v >> 1) ^ ((v & 1) != 0 ? 0x82f63b78U : 0U);
  return std::uint64_t{v} << 1;
}
// The two constants that move a 128-bit lane forward by `bits`: for its first and its second 64
// bits.
template <unsigned bits>
inline constexpr std::uint64_t kFirst = FoldConstant(bits + 32);
template <unsigned bits>
inline constexpr std::uint64_t kSecond = FoldConstant(bits - 32);

template <unsigned bits>
RING_TARGET_WIDE_INLINE __m512i Constants() {
  constexpr auto first = static_cast<long long>(kFirst<bits>);
  constexpr auto second = static_cast<long long>(kSecond<bits>);
  return _mm512_set_epi64(second, first, second, first, second, first, second, first);
}

// state * x^bits + next, lane by lane, for constants = Constants<bits>().
RING_TARGET_WIDE_INLINE __m512i Fold(__m512i state, __m512i constants, __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(state, constants, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(state, constants, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96);
}

// The four lanes as one unfinalised CRC.
RING_TARGET_WIDE_INLINE std::uint32_t Finish(__m512i state) {
  const __m512i constants = _mm512_set_epi64(
      0, 0, static_cast<long long>(kSecond<128>), static_cast<long long>(kFirst<128>),
      static_cast<long long>(kSecond<256>), static_cast<long long>(kFirst<256>),
      static_cast<long long>(kSecond<384>), static_cast<long long>(kFirst<384>));
  const __m512i last = _mm512_maskz_mov_epi64(0xc0, state);
  const __m512i moved = Fold(state, constants, last);
  // The zero-masking forms: g++ 12 warns of its own undefined pass-through value in the others.
  const __m256i half = _mm256_xor_si256(_mm512_maskz_extracti64x4_epi64(0xf, moved, 0),
                                        _mm512_maskz_extracti64x4_epi64(0xf, moved, 1));
  const __m128i lane =
      _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const std::uint64_t first = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(lane)));
  return static_cast<std::uint32_t>(
      _mm_crc32_u64(first, static_cast<std::uint64_t>(_mm_extract_epi64(lane, 1))));
}

// Makes a loaded value opaque, so that the compiler cannot load it twice from memory that a peer
// may change.
RING_TARGET_WIDE_INLINE __m512i ReadOnce(__m512i value) {
  __asm__("" : "+v"(value));
  return value;
}

// The CRC of a buffer by the crc32 instruction alone: for fewer bytes than a fold pays for.
__attribute__((target("sse4.2"))) inline std::uint32_t ExtendShort(std::uint32_t state,
                                                                   const std::uint8_t* data,
                                                                   std::size_t size) {
  std::uint64_t wide = state;
  for (; size >= 8; size -= 8, data += 8) {
    std::uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  if ((size & 4) != 0) {
    std::uint32_t word;
    std::memcpy(&word, data, sizeof(word));
    narrow = _mm_crc32_u32(narrow, word);
    data += 4;
  }
  for (size &= 3; size > 0; --size) narrow = _mm_crc32_u8(narrow, *data++);
  return narrow;
}

// The last `size` < 64 bytes, held in a register.
RING_TARGET_WIDE_INLINE std::uint32_t ExtendTail(std::uint32_t state, __m512i bytes,
                                                 std::size_t size) {
  alignas(64) std::uint8_t buffer[64];
  _mm512_store_si512(buffer, bytes);
  return ExtendShort(state, buffer, size);
}
RING_TARGET_WIDE_INLINE __mmask64 TailMask(std::size_t size) { return (__mmask64{1} << size) - 1; }

}  // namespace ring::crc32c_fold

#endif  // RING_BASE_CRC32C_FOLD_H_
