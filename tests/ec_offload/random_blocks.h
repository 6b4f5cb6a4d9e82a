// tests/ec_offload/random_blocks.h — blocks of random bytes, and the pointers for calculators.
//
// What:      Blocks; RandomBlocks; Inputs and Outputs, which point at them.
// Ownership: pointers are valid while the blocks are.
// Threads:   pure, but for the generator.
// Errors:    none.
#ifndef RING_TESTS_EC_OFFLOAD_RANDOM_BLOCKS_H_
#define RING_TESTS_EC_OFFLOAD_RANDOM_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "ring/base/random.h"

namespace ring::ec_offload {

using Blocks = std::vector<std::vector<std::byte>>;

inline Blocks RandomBlocks(SeededRandom& random, std::size_t count, std::size_t size) {
  Blocks blocks(count, std::vector<std::byte>(size));
  for (auto& block : blocks) {
    for (auto& byte : block) byte = static_cast<std::byte>(random.Next64());
  }
  return blocks;
}

inline std::vector<const std::byte*> Inputs(const Blocks& blocks) {
  std::vector<const std::byte*> pointers;
  for (const auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}

inline std::vector<std::byte*> Outputs(Blocks& blocks) {
  std::vector<std::byte*> pointers;
  for (auto& block : blocks) pointers.push_back(block.data());
  return pointers;
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_RANDOM_BLOCKS_H_
