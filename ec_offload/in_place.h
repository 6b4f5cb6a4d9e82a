// ec_offload/in_place.h — lets an encoder that wants outputs apart from inputs work in place.
//
// What:      RunWholeBlocks: runs encode(inputs, outputs, length) over blocks, through scratch
//            where an output is an input, and sums the outputs.
// Shape:     at most kMatrixSizeMax inputs and as many outputs.
// Ownership: borrows for the call.
// Threads:   pure.
// Errors:    none.
// Cost:      in place, one copy of the outputs more. 16 KiB of stack then.
// Source:    vector code redoes overlapping ends and takes outputs in groups: with an input
//            overwritten by the first group, the second would be wrong.
#ifndef RING_EC_OFFLOAD_IN_PLACE_H_
#define RING_EC_OFFLOAD_IN_PLACE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ec_offload/matrix_calculator.h"
#include "ring/base/crc32c.h"

namespace ring::ec_offload {

struct WholeBlocks {
  const std::byte* const* inputs = nullptr;
  std::size_t input_count = 0;
  std::byte* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t length = 0;
};

template <class Encode>
void RunThroughScratch(const WholeBlocks& blocks, const Encode& encode) {
  // 512 bytes of each output while these are few; at least 64, so that vector code has a block.
  constexpr std::size_t kScratchSize = kMatrixSizeMax * 64;
  alignas(64) std::byte scratch[kScratchSize];
  const std::size_t chunk =
      std::min<std::size_t>(512, kScratchSize / blocks.output_count / 64 * 64);
  std::array<const std::byte*, kMatrixSizeMax> from;
  std::array<std::byte*, kMatrixSizeMax> to;
  for (std::size_t r = 0; r < blocks.output_count; ++r) to[r] = scratch + r * chunk;
  for (std::size_t i = 0; i < blocks.length; i += chunk) {
    const std::size_t size = std::min(chunk, blocks.length - i);
    for (std::size_t c = 0; c < blocks.input_count; ++c) from[c] = blocks.inputs[c] + i;
    encode(from.data(), to.data(), size);
    for (std::size_t r = 0; r < blocks.output_count; ++r)
      std::memcpy(blocks.outputs[r] + i, to[r], size);
  }
}

// crcs as in rdma::Calculator::Run.
template <class Encode>
void RunWholeBlocks(const WholeBlocks& blocks, std::uint32_t* crcs, const Encode& encode) {
  const std::byte* const* inputs_end = blocks.inputs + blocks.input_count;
  const bool in_place = std::find_first_of(blocks.inputs, inputs_end, blocks.outputs,
                                           blocks.outputs + blocks.output_count) != inputs_end;
  if (in_place) {
    RunThroughScratch(blocks, encode);
  } else {
    encode(blocks.inputs, blocks.outputs, blocks.length);
  }
  if (crcs == nullptr) return;
  for (std::size_t j = 0; j < blocks.output_count; ++j)
    crcs[j] = Crc32c(blocks.outputs[j], blocks.length);
}

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_IN_PLACE_H_
