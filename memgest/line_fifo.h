// memgest/line_fifo.h — a queue of line numbers.
//
// What:      A ring buffer of u32 that doubles when it is full; both ends can be pushed.
// Ownership: owns its buffer.
// Threads:   one.
// Errors:    none.
// Cost:      no allocation below the largest size ever reached.
#ifndef RING_MEMGEST_LINE_FIFO_H_
#define RING_MEMGEST_LINE_FIFO_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ring::memgest {

class LineFifo {
 public:
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  // REQUIRES: index < size(). 0 is the front.
  std::uint32_t at(std::size_t index) const { return ring_[(head_ + index) & mask_]; }

  void PushBack(std::uint32_t line) {
    if (count_ == ring_.size()) Grow();
    ring_[(head_ + count_) & mask_] = line;
    ++count_;
  }
  void PushFront(std::uint32_t line) {
    if (count_ == ring_.size()) Grow();
    head_ = (head_ - 1) & mask_;
    ring_[head_] = line;
    ++count_;
  }
  // REQUIRES: !empty().
  std::uint32_t PopFront() {
    const std::uint32_t line = ring_[head_];
    head_ = (head_ + 1) & mask_;
    --count_;
    return line;
  }

 private:
  static constexpr std::size_t kSizeMin = 64;

  void Grow() {
    std::vector<std::uint32_t> larger(ring_.empty() ? kSizeMin : ring_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = at(i);
    ring_.swap(larger);
    head_ = 0;
    mask_ = ring_.size() - 1;
  }

  std::vector<std::uint32_t> ring_;
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::size_t mask_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_LINE_FIFO_H_
