// ec_offload/verbs_exp/bounded_queue.h — a queue whose memory is there from the beginning.
//
// What:      BoundedQueue<T>: push at the back, pop at the front. For what has to be noted when an
//            operation is over, where nobody could be told that there is no memory for it.
// Ownership: owns its elements.
// Threads:   thread-compatible.
// Errors:    the constructor throws std::bad_alloc; nothing else does. To push into a full queue or
//            to take from an empty one is a broken invariant.
// Cost:      constant; memory that was never used is never touched.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_BOUNDED_QUEUE_H_
#define RING_EC_OFFLOAD_VERBS_EXP_BOUNDED_QUEUE_H_

#include <cstddef>
#include <memory>
#include <type_traits>

#include "ring/base/check.h"

namespace ring::ec_verbs {

template <class T>
class BoundedQueue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit BoundedQueue(std::size_t capacity)
      : slots_(std::make_unique_for_overwrite<T[]>(capacity)), capacity_(capacity) {}

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  const T& front() const {
    RING_CHECK(size_ > 0);
    return slots_[head_];
  }
  void push_back(const T& value) {
    RING_CHECK(size_ < capacity_);
    slots_[At(size_++)] = value;
  }
  void pop_front() {
    RING_CHECK(size_ > 0);
    head_ = At(1);
    --size_;
  }
  template <class Predicate>
  void EraseIf(const Predicate& predicate) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!predicate(slots_[At(i)])) slots_[At(kept++)] = slots_[At(i)];
    }
    size_ = kept;
  }

 private:
  std::size_t At(std::size_t i) const {
    const std::size_t at = head_ + i;
    return at < capacity_ ? at : at - capacity_;
  }

  std::unique_ptr<T[]> slots_;
  std::size_t capacity_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_BOUNDED_QUEUE_H_
