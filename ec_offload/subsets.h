// ec_offload/subsets.h — all subsets of one size, one after another.
//
// What:      FirstSubset and NextSubset, over bits of a word; BitsOf, a subset's members.
// Units:     bit i is member i, below 64. Subsets ascend as numbers: of n members, those below 2^n.
// Threads:   pure.
// Errors:    none.
// Source:    Gosper, HAKMEM 175.
#ifndef RING_EC_OFFLOAD_SUBSETS_H_
#define RING_EC_OFFLOAD_SUBSETS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ring::ec_offload {

// REQUIRES: size < 64.
constexpr std::uint64_t FirstSubset(std::size_t size) { return (std::uint64_t{1} << size) - 1; }

// REQUIRES: subset is not 0, and its next one fits the word.
constexpr std::uint64_t NextSubset(std::uint64_t subset) {
  const std::uint64_t lowest = subset & (~subset + 1);
  const std::uint64_t ripple = subset + lowest;
  return ripple | (((subset ^ ripple) >> 2) / lowest);
}

inline std::vector<std::size_t> BitsOf(std::uint64_t subset) {
  std::vector<std::size_t> bits;
  for (; subset != 0; subset &= subset - 1)
    bits.push_back(static_cast<std::size_t>(std::countr_zero(subset)));
  return bits;
}

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SUBSETS_H_
