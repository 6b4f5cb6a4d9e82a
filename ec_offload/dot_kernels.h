// ec_offload/dot_kernels.h — the loops of a matrix product over blocks: each output is the sum of
// all inputs, each by a constant factor.
//
// What:      DotEngine: up to kDotCountMax outputs in one pass over the inputs, by the forms of
//            gf256::Factor (which fit both fields); a scalar twin, an AVX2 form and an AVX-512 +
//            GFNI form, chosen by what the processor can do.
// Shape:     any length, 0 included; any alignment; any count of inputs.
// Ownership: borrows for the call. An output may be an input while one call makes all outputs,
//            never overlap it otherwise.
// Threads:   pure.
// Errors:    none; an engine that the processor lacks is an illegal instruction.
// Cost:      for each input and output, AVX2: two table look-ups for 32 bytes; AVX-512: one
//            gf2p8affineqb for 64. None for an output that is the inputs' sum, as the first parity
//            of a Vandermonde matrix is. Six blocks of 4 KiB into three, hot, AVX-512: 146 ns.
#ifndef RING_EC_OFFLOAD_DOT_KERNELS_H_
#define RING_EC_OFFLOAD_DOT_KERNELS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "ec_offload/gf256.h"

namespace ring::ec_offload {

// Outputs of one pass: their accumulators, 64 bytes each, and the tables fill AVX2's registers.
inline constexpr std::size_t kDotCountMax = 4;

// outputs[j][i] = sum over c of factors[c * output_count + j] * inputs[c][i], from <= i < to.
struct DotArguments {
  const std::byte* const* inputs = nullptr;
  std::byte* const* outputs = nullptr;
  const gf256::Factor* factors = nullptr;
  std::size_t input_count = 0;
  std::size_t output_count = 0;  // 1 to kDotCountMax
  bool first_is_sum = false;     // all factors of output 0 are 1, which saves the tables
  std::size_t from = 0;
  std::size_t to = 0;
};

struct DotEngine {
  const char* name;
  void (*run)(const DotArguments& arguments);
};

// Those that this processor can run: the scalar twin first, the fastest last.
absl::Span<const DotEngine> DotEngines();
const DotEngine& BestDotEngine();

// One each instruction set; behind DotEngines().
void DotScalar(const DotArguments& arguments);
void DotAvx2(const DotArguments& arguments);
void DotWide(const DotArguments& arguments);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_DOT_KERNELS_H_
