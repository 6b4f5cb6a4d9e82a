#include "ring/base/crc32c.h"

#include <immintrin.h>

#include <atomic>
#include <cstring>

#include "ring/base/crc32c_fold.h"

namespace ring {
namespace {

using crc32c_fold::Constants;
using crc32c_fold::ExtendShort;
using crc32c_fold::ExtendTail;
using crc32c_fold::Finish;
using crc32c_fold::Fold;
using crc32c_fold::ReadOnce;
using crc32c_fold::TailMask;

enum class Store { kNone, kOrdinary, kStream };

// ---- 512-bit folding
//

template <Store store>
RING_TARGET_WIDE_INLINE __m512i Take(std::uint8_t* destination, const std::uint8_t* source) {
  const __m512i bytes = ReadOnce(_mm512_loadu_si512(source));
  if constexpr (store == Store::kOrdinary) _mm512_storeu_si512(destination, bytes);
  if constexpr (store == Store::kStream) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(destination), bytes);
  }
  return bytes;
}

template <Store store>
RING_TARGET_WIDE std::uint32_t ExtendWide(std::uint32_t state, std::uint8_t* to,
                                          const std::uint8_t* from, std::size_t size) {
  constexpr std::size_t advance = store == Store::kNone ? 0 : 64;
  if (size >= 128) {
    const __m512i seed = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
    __m512i a = _mm512_xor_si512(Take<store>(to, from), seed);
    if (size >= 512) {
      __m512i b = Take<store>(to + advance, from + 64);
      __m512i c = Take<store>(to + 2 * advance, from + 128);
      __m512i d = Take<store>(to + 3 * advance, from + 192);
      const __m512i by_four = Constants<2048>();
      for (from += 256, to += 4 * advance, size -= 256; size >= 256;
           from += 256, to += 4 * advance, size -= 256) {
        a = Fold(a, by_four, Take<store>(to, from));
        b = Fold(b, by_four, Take<store>(to + advance, from + 64));
        c = Fold(c, by_four, Take<store>(to + 2 * advance, from + 128));
        d = Fold(d, by_four, Take<store>(to + 3 * advance, from + 192));
      }
      b = Fold(b, Constants<1024>(), d);
      a = Fold(a, Constants<1536>(), Fold(c, Constants<512>(), b));
    } else {
      from += 64;
      to += advance;
      size -= 64;
    }
    const __m512i by_one = Constants<512>();
    for (; size >= 64; from += 64, to += advance, size -= 64)
      a = Fold(a, by_one, Take<store>(to, from));
    state = Finish(a);
  }
  for (; size >= 64; from += 64, to += advance, size -= 64) {
    state = ExtendTail(state, Take<store>(to, from), 64);
  }
  if (size > 0) {
    const __mmask64 mask = TailMask(size);
    const __m512i bytes = ReadOnce(_mm512_maskz_loadu_epi8(mask, from));
    if constexpr (store != Store::kNone) _mm512_mask_storeu_epi8(to, mask, bytes);
    state = ExtendTail(state, bytes, size);
  }
  return state;
}

RING_TARGET_WIDE std::uint32_t WideExtend(std::uint32_t state, const std::uint8_t* data,
                                          std::size_t size) {
  return ExtendWide<Store::kNone>(state, nullptr, data, size);
}
RING_TARGET_WIDE std::uint32_t WideCopy(std::uint32_t state, std::uint8_t* to,
                                        const std::uint8_t* from, std::size_t size) {
  return ExtendWide<Store::kOrdinary>(state, to, from, size);
}
RING_TARGET_WIDE std::uint32_t WideCopyStream(std::uint32_t state, std::uint8_t* to,
                                              const std::uint8_t* from, std::size_t size) {
  if ((reinterpret_cast<std::uintptr_t>(to) & 63) != 0) return WideCopy(state, to, from, size);
  return ExtendWide<Store::kStream>(state, to, from, size);
}

// ---- 128-bit folding
//

#define RING_TARGET_NARROW __attribute__((target("pclmul,sse4.2")))
#define RING_TARGET_NARROW_INLINE RING_TARGET_NARROW __attribute__((always_inline)) inline

template <unsigned bits>
RING_TARGET_NARROW_INLINE __m128i FoldNarrow(__m128i state, __m128i next) {
  const __m128i constants = _mm_set_epi64x(static_cast<long long>(crc32c_fold::kSecond<bits>),
                                           static_cast<long long>(crc32c_fold::kFirst<bits>));
  const __m128i low = _mm_clmulepi64_si128(state, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(state, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

template <Store store>
RING_TARGET_NARROW_INLINE __m128i TakeNarrow(std::uint8_t* destination,
                                             const std::uint8_t* source) {
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
  __asm__("" : "+x"(bytes));
  if constexpr (store == Store::kOrdinary) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination), bytes);
  }
  if constexpr (store == Store::kStream) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(destination), bytes);
  }
  return bytes;
}

// The bytes that no vector takes, each read once.
template <Store store>
std::uint32_t ExtendRest(std::uint32_t state, std::uint8_t* to, const std::uint8_t* from,
                         std::size_t size) {
  if constexpr (store == Store::kNone) return ExtendShort(state, from, size);
  while (size >= 8) {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    __asm__("" : "+r"(word));
    std::memcpy(to, &word, sizeof(word));
    state = static_cast<std::uint32_t>(_mm_crc32_u64(state, word));
    from += 8;
    to += 8;
    size -= 8;
  }
  for (; size > 0; --size) {
    std::uint32_t byte = *from++;
    __asm__("" : "+r"(byte));
    *to++ = static_cast<std::uint8_t>(byte);
    state = _mm_crc32_u8(state, static_cast<std::uint8_t>(byte));
  }
  return state;
}

template <Store store>
RING_TARGET_NARROW std::uint32_t ExtendNarrow(std::uint32_t state, std::uint8_t* to,
                                              const std::uint8_t* from, std::size_t size) {
  constexpr std::size_t advance = store == Store::kNone ? 0 : 16;
  if (size >= 128) {
    __m128i a =
        _mm_xor_si128(TakeNarrow<store>(to, from), _mm_cvtsi32_si128(static_cast<int>(state)));
    __m128i b = TakeNarrow<store>(to + advance, from + 16);
    __m128i c = TakeNarrow<store>(to + 2 * advance, from + 32);
    __m128i d = TakeNarrow<store>(to + 3 * advance, from + 48);
    for (from += 64, to += 4 * advance, size -= 64; size >= 64;
         from += 64, to += 4 * advance, size -= 64) {
      a = FoldNarrow<512>(a, TakeNarrow<store>(to, from));
      b = FoldNarrow<512>(b, TakeNarrow<store>(to + advance, from + 16));
      c = FoldNarrow<512>(c, TakeNarrow<store>(to + 2 * advance, from + 32));
      d = FoldNarrow<512>(d, TakeNarrow<store>(to + 3 * advance, from + 48));
    }
    b = FoldNarrow<256>(b, d);
    a = FoldNarrow<384>(a, FoldNarrow<128>(c, b));
    const std::uint64_t first = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(a)));
    state = static_cast<std::uint32_t>(
        _mm_crc32_u64(first, static_cast<std::uint64_t>(_mm_extract_epi64(a, 1))));
  }
  return ExtendRest<store>(state, to, from, size);
}

std::uint32_t NarrowExtend(std::uint32_t state, const std::uint8_t* data, std::size_t size) {
  return ExtendNarrow<Store::kNone>(state, nullptr, data, size);
}
std::uint32_t NarrowCopy(std::uint32_t state, std::uint8_t* to, const std::uint8_t* from,
                         std::size_t size) {
  return ExtendNarrow<Store::kOrdinary>(state, to, from, size);
}

std::uint32_t NarrowCopyStream(std::uint32_t state, std::uint8_t* to, const std::uint8_t* from,
                               std::size_t size) {
  if ((reinterpret_cast<std::uintptr_t>(to) & 63) != 0) return NarrowCopy(state, to, from, size);
  return ExtendNarrow<Store::kStream>(state, to, from, size);
}

// ---- choice
//

std::uint32_t PlainCopy(std::uint32_t state, std::uint8_t* to, const std::uint8_t* from,
                        std::size_t size) {
  return ExtendRest<Store::kOrdinary>(state, to, from, size);
}

constexpr Crc32cEngine kEngines[] = {
    {"crc32", ExtendShort, PlainCopy, PlainCopy},
    {"pclmul", NarrowExtend, NarrowCopy, NarrowCopyStream},
    {"vpclmul", WideExtend, WideCopy, WideCopyStream},
};

std::size_t EngineCount() {
  if (!__builtin_cpu_supports("pclmul")) return 1;
  return crc32c_fold::CpuHasWideVectors() ? 3 : 2;
}

// Chosen at the first use: static initialisers of other files may already sum.
const Crc32cEngine& Engine() {
  static constinit std::atomic<const Crc32cEngine*> chosen{nullptr};
  const Crc32cEngine* engine = chosen.load(std::memory_order_relaxed);
  if (engine == nullptr) [[unlikely]] {
    engine = &kEngines[EngineCount() - 1];
    chosen.store(engine, std::memory_order_relaxed);
  }
  return *engine;
}

}  // namespace

absl::Span<const Crc32cEngine> Crc32cEngines() {
  return absl::MakeConstSpan(kEngines, EngineCount());
}

std::uint32_t Crc32c(const void* data, std::size_t size, std::uint32_t seed) {
  return ~Engine().extend(~seed, static_cast<const std::uint8_t*>(data), size);
}

std::uint32_t Crc32cCopy(void* destination, const void* source, std::size_t size,
                         std::uint32_t seed) {
  return ~Engine().copy(~seed, static_cast<std::uint8_t*>(destination),
                        static_cast<const std::uint8_t*>(source), size);
}

std::uint32_t Crc32cCopyStream(void* destination, const void* source, std::size_t size,
                               std::uint32_t seed) {
  return ~Engine().copy_stream(~seed, static_cast<std::uint8_t*>(destination),
                               static_cast<const std::uint8_t*>(source), size);
}

std::uint32_t Crc32cHeader(const void* data, std::size_t size, std::uint32_t seed) {
  return ~ExtendShort(~seed, static_cast<const std::uint8_t*>(data), size);
}

}  // namespace ring
