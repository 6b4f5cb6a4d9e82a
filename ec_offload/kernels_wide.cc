// The AVX-512 engine: multiplication by gf2p8affineqb, sums by carry-less multiplication in the
// same pass.
#include <immintrin.h>

#include "ec_offload/kernel_engines.h"
#include "ec_offload/wide_factor.h"
#include "ring/base/crc32c_fold.h"

namespace ring::ec_offload {
namespace {

using crc32c_fold::Constants;
using crc32c_fold::ExtendTail;
using crc32c_fold::Finish;
using crc32c_fold::Fold;
using crc32c_fold::ReadOnce;
using crc32c_fold::TailMask;

RING_TARGET_WIDE_INLINE __m512i Load(const std::uint8_t* p) {
  return ReadOnce(_mm512_loadu_si512(p));
}
RING_TARGET_WIDE_INLINE __m512i Load(const std::uint8_t* p, __mmask64 mask) {
  return ReadOnce(_mm512_maskz_loadu_epi8(mask, p));
}
// The unfinalised start of a CRC, as what is xored into the first bytes.
RING_TARGET_WIDE_INLINE __m512i CrcSeed() { return _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)); }

RING_TARGET_WIDE void XorCopy(std::uint8_t* destination, const std::uint8_t* a,
                              const std::uint8_t* b, std::size_t size) {
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    _mm512_storeu_si512(destination + i, _mm512_xor_si512(Load(a + i), Load(b + i)));
  }
  if (i < size) {
    const __mmask64 mask = TailMask(size - i);
    _mm512_mask_storeu_epi8(destination + i, mask,
                            _mm512_xor_si512(Load(a + i, mask), Load(b + i, mask)));
  }
}

RING_TARGET_WIDE void XorInto(std::uint8_t* destination, const std::uint8_t* source,
                              std::size_t size) {
  XorCopy(destination, destination, source, size);
}

RING_TARGET_WIDE_INLINE __m512i XorBlock(std::uint8_t* destination, const std::uint8_t* source) {
  const __m512i bytes = Load(source);
  _mm512_storeu_si512(destination, _mm512_xor_si512(Load(destination), bytes));
  return bytes;
}

RING_TARGET_WIDE std::uint32_t XorIntoCrc(std::uint8_t* destination, const std::uint8_t* source,
                                          std::size_t size) {
  std::uint32_t state = 0xffffffff;
  std::size_t i = 0;
  if (size >= 64) {
    __m512i a = _mm512_xor_si512(XorBlock(destination, source), CrcSeed());
    i = 64;
    if (size >= 256) {
      __m512i b = XorBlock(destination + 64, source + 64);
      const __m512i by_two = Constants<1024>();
      for (i = 128; i + 128 <= size; i += 128) {
        a = Fold(a, by_two, XorBlock(destination + i, source + i));
        b = Fold(b, by_two, XorBlock(destination + i + 64, source + i + 64));
      }
      a = Fold(a, Constants<512>(), b);
    }
    for (; i + 64 <= size; i += 64)
      a = Fold(a, Constants<512>(), XorBlock(destination + i, source + i));
    state = Finish(a);
  }
  if (i < size) {
    const __mmask64 mask = TailMask(size - i);
    const __m512i bytes = Load(source + i, mask);
    _mm512_mask_storeu_epi8(destination + i, mask,
                            _mm512_xor_si512(Load(destination + i, mask), bytes));
    state = ExtendTail(state, bytes, size - i);
  }
  return ~state;
}

RING_TARGET_WIDE void Multiply(std::uint8_t* destination, const std::uint8_t* source,
                               const gf256::Factor& factor, std::size_t size) {
  const __m512i affine = AffineOf(factor);
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64)
    _mm512_storeu_si512(destination + i, Times(affine, Load(source + i)));
  if (i < size) {
    const __mmask64 mask = TailMask(size - i);
    _mm512_mask_storeu_epi8(destination + i, mask, Times(affine, Load(source + i, mask)));
  }
}

RING_TARGET_WIDE void MultiplyAdd(std::uint8_t* destination, const std::uint8_t* source,
                                  const gf256::Factor& factor, std::size_t size) {
  const __m512i affine = AffineOf(factor);
  std::size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    _mm512_storeu_si512(destination + i,
                        _mm512_xor_si512(Load(destination + i), Times(affine, Load(source + i))));
  }
  if (i < size) {
    const __mmask64 mask = TailMask(size - i);
    const __m512i product = Times(affine, Load(source + i, mask));
    _mm512_mask_storeu_epi8(destination + i, mask,
                            _mm512_xor_si512(Load(destination + i, mask), product));
  }
}

// One state per sum: with two deltas their multiplications already fill the unit, and a second
// state would only cost its join.
template <std::size_t count, DeltaMode mode>
struct WideDelta {
  static constexpr std::size_t kSums = Sums(mode) ? count + (SumsSlot(mode) ? 1 : 0) : 0;
  struct State {
    __m512i affine[count];
    __m512i sums[kSums + 1];
  };

  // One block of 64 bytes: everything of it is read before anything is written.
  template <bool first>
  RING_TARGET_WIDE_INLINE static void Block(const DeltaArguments& a, State& state, std::size_t i) {
    const __m512i fresh = Load(a.new_bytes + i);
    const __m512i difference = _mm512_xor_si512(Load(a.old_bytes + i), fresh);
    for (std::size_t j = 0; j < count; ++j) {
      const __m512i delta = Times(state.affine[j], difference);
      _mm512_storeu_si512(a.deltas[j] + i, delta);
      if constexpr (Sums(mode)) Add<first>(state.sums[j], delta);
    }
    if constexpr (WritesSlot(mode)) _mm512_storeu_si512(a.slot + i, fresh);
    if constexpr (SumsSlot(mode)) Add<first>(state.sums[count], fresh);
  }
  template <bool first>
  RING_TARGET_WIDE_INLINE static void Add(__m512i& sum, __m512i bytes) {
    if constexpr (first) {
      sum = _mm512_xor_si512(bytes, CrcSeed());
    } else {
      sum = Fold(sum, Constants<512>(), bytes);
    }
  }

  RING_TARGET_WIDE static void Run(const DeltaArguments& a) {
    State state;
    for (std::size_t j = 0; j < count; ++j) state.affine[j] = AffineOf(a.factors[j]);
    std::uint32_t crcs[kSums + 1];
    for (std::size_t j = 0; j < kSums; ++j) crcs[j] = 0xffffffff;
    std::size_t i = 0;
    if (a.length >= 64) {
      Block<true>(a, state, 0);
      for (i = 64; i + 64 <= a.length; i += 64) Block<false>(a, state, i);
      for (std::size_t j = 0; j < kSums; ++j) crcs[j] = Finish(state.sums[j]);
    }
    if (i < a.length) Tail(a, state, i, crcs);
    if constexpr (Sums(mode)) {
      for (std::size_t j = 0; j < count; ++j) a.delta_crcs[j] = ~crcs[j];
    }
    if constexpr (SumsSlot(mode)) *a.slot_crc = ~crcs[count];
  }

  RING_TARGET_WIDE_INLINE static void Tail(const DeltaArguments& a, const State& state,
                                           std::size_t i, std::uint32_t* crcs) {
    const std::size_t rest = a.length - i;
    const __mmask64 mask = TailMask(rest);
    const __m512i fresh = Load(a.new_bytes + i, mask);
    const __m512i difference = _mm512_xor_si512(Load(a.old_bytes + i, mask), fresh);
    for (std::size_t j = 0; j < count; ++j) {
      const __m512i delta = Times(state.affine[j], difference);
      _mm512_mask_storeu_epi8(a.deltas[j] + i, mask, delta);
      if constexpr (Sums(mode)) crcs[j] = ExtendTail(crcs[j], delta, rest);
    }
    if constexpr (WritesSlot(mode)) _mm512_mask_storeu_epi8(a.slot + i, mask, fresh);
    if constexpr (SumsSlot(mode)) crcs[count] = ExtendTail(crcs[count], fresh, rest);
  }
};

}  // namespace

constinit const KernelEngine kWideEngine = {
    "avx512", XorInto, XorIntoCrc, XorCopy, Multiply, MultiplyAdd, SelectDelta<WideDelta>};

bool WideEngineSupported() { return crc32c_fold::CpuHasWideVectors(); }

}  // namespace ring::ec_offload
