// ec_offload/kernels.h — the loops over bytes: xor, multiplication by a constant, and the delta of
// an update.
//
// What:      XorInto, XorIntoCrc (the fold at a parity), XorCopy; Multiply and MultiplyAdd over
//            GF(2^8) (repair, scrub, rescaling of deltas); DeltaKernel, which DeltaCalculator runs.
//            Each has a scalar twin (the oracle), an AVX2 form and an AVX-512 + GFNI form, chosen
//            by what the processor can do.
// Shape:     any length, 0 included; any alignment.
// Ownership: borrows for the call. destination may be equal to a source (in place), never overlap
//            it otherwise.
// Threads:   pure.
// Errors:    none.
// Cost:      1 KiB, hot, AVX-512: XorInto 7 ns, XorIntoCrc 17 ns, MultiplyAdd 7 ns (AVX2: 9, 29,
//            24).
#ifndef RING_EC_OFFLOAD_KERNELS_H_
#define RING_EC_OFFLOAD_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "ec_offload/gf256.h"

namespace ring::ec_offload {

// destination ^= source.
void XorInto(std::byte* destination, const std::byte* source, std::size_t size);
// destination ^= source; gives the CRC-32C of source, of the very bytes used. A caller who finds
// that it is not the CRC that he expects undoes the damage by a second call only while source
// cannot change.
std::uint32_t XorIntoCrc(std::byte* destination, const std::byte* source, std::size_t size);
// destination = a ^ b.
void XorCopy(std::byte* destination, const std::byte* a, const std::byte* b, std::size_t size);
// destination = factor * source.
void Multiply(std::byte* destination, const std::byte* source, gf256::Element factor,
              std::size_t size);
// destination ^= factor * source.
void MultiplyAdd(std::byte* destination, const std::byte* source, gf256::Element factor,
                 std::size_t size);

// The most deltas that one DeltaKernel computes: parities of a code.
inline constexpr std::size_t kDeltaCountMax = 4;

// deltas[j] = factors[j] * (old_bytes ^ new_bytes) for j < count; then slot = new_bytes.
struct DeltaArguments {
  const std::uint8_t* old_bytes = nullptr;
  const std::uint8_t* new_bytes = nullptr;  // each byte is read once
  std::array<std::uint8_t*, kDeltaCountMax> deltas{};
  std::uint8_t* slot = nullptr;  // usually old_bytes; only kernels selected with slot write it
  const gf256::Factor* factors = nullptr;
  std::size_t length = 0;
  std::uint32_t* delta_crcs = nullptr;  // `count` CRC-32Cs, by kernels selected with crc
  std::uint32_t* slot_crc = nullptr;    // by kernels selected with slot_crc
};
using DeltaKernel = void (*)(const DeltaArguments& arguments);

struct DeltaForm {
  std::size_t count = 1;  // 1 to kDeltaCountMax
  bool slot = false;
  bool crc = false;
  bool slot_crc = false;  // only with slot and crc
};

struct KernelEngine {
  const char* name;
  void (*xor_into)(std::uint8_t* destination, const std::uint8_t* source, std::size_t size);
  std::uint32_t (*xor_into_crc)(std::uint8_t* destination, const std::uint8_t* source,
                                std::size_t size);
  void (*xor_copy)(std::uint8_t* destination, const std::uint8_t* a, const std::uint8_t* b,
                   std::size_t size);
  void (*multiply)(std::uint8_t* destination, const std::uint8_t* source,
                   const gf256::Factor& factor, std::size_t size);
  void (*multiply_add)(std::uint8_t* destination, const std::uint8_t* source,
                       const gf256::Factor& factor, std::size_t size);
  DeltaKernel (*select_delta)(const DeltaForm& form);
};

// Those that this processor can run: the scalar oracle first, the fastest last.
absl::Span<const KernelEngine* const> KernelEngines();
// The fastest.
const KernelEngine& BestKernelEngine();
// The precomputed forms of a constant.
const gf256::Factor& FactorOf(gf256::Element value);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_KERNELS_H_
