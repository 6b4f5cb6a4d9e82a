// memgest/block_set.h — a set of block numbers as a bitmap.
//
// What:      Insert, Erase, count, and the next member from a place on.
// Ownership: owns its words.
// Threads:   one.
// Errors:    none.
// Cost:      constant; Next looks at 64 blocks a step.
#ifndef RING_MEMGEST_BLOCK_SET_H_
#define RING_MEMGEST_BLOCK_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ring::memgest {

class BlockSet {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  bool Contains(std::uint32_t block) const {
    return block / 64 < words_.size() && (words_[block / 64] >> (block % 64) & 1) != 0;
  }
  void Insert(std::uint32_t block) {
    if (Contains(block)) return;
    if (words_.size() <= block / 64) words_.resize(block / 64 + 1);
    words_[block / 64] |= std::uint64_t{1} << (block % 64);
    ++count_;
  }
  void Erase(std::uint32_t block) {
    if (!Contains(block)) return;
    words_[block / 64] &= ~(std::uint64_t{1} << (block % 64));
    --count_;
  }
  // The least member >= from; kNone: there is none.
  std::uint32_t Next(std::uint32_t from) const {
    for (std::size_t i = from / 64; i < words_.size(); ++i) {
      std::uint64_t word = words_[i];
      if (i == from / 64) word &= ~std::uint64_t{0} << (from % 64);
      if (word != 0) {
        return static_cast<std::uint32_t>(i * 64 +
                                          static_cast<std::size_t>(std::countr_zero(word)));
      }
    }
    return kNone;
  }
  std::uint32_t count() const { return count_; }

 private:
  std::vector<std::uint64_t> words_;
  std::uint32_t count_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_BLOCK_SET_H_
