// ring/base/fifo.h — a queue in one growing ring of memory.
//
// What:      Fifo<T>: push at the back, pop at the front; grows by doubling and never shrinks, so
//            that the steady state allocates nothing (std::deque allocates and frees a chunk every
//            few elements).
// Ownership: owns its elements; T is cheap to default-construct and to move.
// Threads:   thread-compatible.
// Errors:    front() and pop_front() of an empty queue are broken invariants.
// Cost:      amortised constant.
#ifndef RING_BASE_FIFO_H_
#define RING_BASE_FIFO_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "ring/base/check.h"

namespace ring {

template <class T>
class Fifo {
 public:
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return tail_ - head_; }

  void push_back(T value) {
    if (size() == slots_.size()) Grow();
    slots_[tail_++ & (slots_.size() - 1)] = std::move(value);
  }
  void push_front(T value) {
    if (size() == slots_.size()) Grow();
    slots_[--head_ & (slots_.size() - 1)] = std::move(value);
  }
  T& front() {
    RING_CHECK(!empty());
    return slots_[head_ & (slots_.size() - 1)];
  }
  const T& front() const {
    RING_CHECK(!empty());
    return slots_[head_ & (slots_.size() - 1)];
  }
  // The i-th from the front. REQUIRES: i < size().
  T& operator[](std::size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }
  const T& operator[](std::size_t i) const { return slots_[(head_ + i) & (slots_.size() - 1)]; }
  void pop_front() {
    RING_CHECK(!empty());
    ++head_;
  }

 private:
  void Grow() {
    std::vector<T> larger(slots_.empty() ? 8 : slots_.size() * 2);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    head_ = 0;
    tail_ = count;
  }

  std::vector<T> slots_;  // a power of two, or empty
  std::size_t head_ = 0;  // both count on for ever; unsigned wrap is harmless
  std::size_t tail_ = 0;
};

}  // namespace ring

#endif  // RING_BASE_FIFO_H_
