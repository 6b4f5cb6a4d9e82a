// tests/ec_offload/eco/eco_blocks.h — the blocks of a stripe as the mlx_eco_* functions take them.
//
// What:      EcoBlocks: k data and m code blocks of random bytes, each in memory of its own so that
//            AddressSanitizer sees its ends, at a random alignment; calls on them.
// Ownership: owns the blocks.
// Threads:   one.
// Errors:    those of the functions called.
#ifndef RING_TESTS_EC_OFFLOAD_ECO_ECO_BLOCKS_H_
#define RING_TESTS_EC_OFFLOAD_ECO_ECO_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ec_offload/eco/include/ecOffload/eco_decoder.h"
#include "ec_offload/eco/include/ecOffload/eco_encoder.h"
#include "ring/base/random.h"

namespace ring::ec_offload {

class EcoBlocks {
 public:
  EcoBlocks(SeededRandom& random, int k, int m, int size) : k_(k), m_(m), size_(size) {
    for (int i = 0; i < k + m; ++i) {
      const std::size_t shift = random.Below(64);
      memory_.push_back(std::make_unique<std::uint8_t[]>(shift + static_cast<std::size_t>(size)));
      std::uint8_t* const block = memory_.back().get() + shift;
      for (int b = 0; b < size; ++b) block[b] = static_cast<std::uint8_t>(random.Next64());
      (i < k ? data : coding).push_back(block);
    }
  }

  int k() const { return k_; }
  int m() const { return m_; }
  int size() const { return size_; }
  std::uint8_t* Block(int index) const {
    return index < k_ ? data[static_cast<std::size_t>(index)]
                      : coding[static_cast<std::size_t>(index - k_)];
  }
  std::vector<std::uint8_t> Copy(int index) const { return {Block(index), Block(index) + size_}; }
  std::vector<std::vector<std::uint8_t>> CopyAll() const {
    std::vector<std::vector<std::uint8_t>> all;
    for (int i = 0; i < k_ + m_; ++i) all.push_back(Copy(i));
    return all;
  }
  void Spoil(int index) { std::memset(Block(index), 0xa5, static_cast<std::size_t>(size_)); }

  int Encode(eco_encoder* encoder) {
    return mlx_eco_encoder_encode(encoder, data.data(), coding.data(), k_, m_, size_);
  }
  int Decode(eco_decoder* decoder, std::vector<int> erasures) {
    return mlx_eco_decoder_decode(decoder, data.data(), coding.data(), k_, m_, size_,
                                  erasures.data(), static_cast<int>(erasures.size()));
  }

  std::vector<std::uint8_t*> data;
  std::vector<std::uint8_t*> coding;

 private:
  int k_;
  int m_;
  int size_;
  std::vector<std::unique_ptr<std::uint8_t[]>> memory_;
};

// `count` of the indices below `end`, each once, in random order.
inline std::vector<int> RandomIndices(SeededRandom& random, int count, int end) {
  std::vector<int> all(static_cast<std::size_t>(end));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    std::swap(all[i], all[i + random.Below(all.size() - i)]);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_ECO_ECO_BLOCKS_H_
