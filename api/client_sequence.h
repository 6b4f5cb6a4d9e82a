// api/client_sequence.h — the sequence numbers of one client in one shard.
//
// What:      SequenceWindow gives numbers from 1 and knows the first that is not complete, which
//            lets nodes forget completion records and drop late requests (rules X3, X4).
// Shape:     at most 1,024 numbers from the first incomplete one on are in use.
// Threads:   thread-compatible.
// Errors:    none; Next gives 0 when the window is full.
// Cost:      a few instructions; no allocation.
#ifndef RING_API_CLIENT_SEQUENCE_H_
#define RING_API_CLIENT_SEQUENCE_H_

#include <array>
#include <cstdint>

#include "ring/base/check.h"
#include "ring/protocol/limits.h"

namespace ring::api {

class SequenceWindow {
 public:
  static constexpr std::uint64_t kSize = protocol::kReplySlotCountMax;

  // 0: a number that is kSize back is not complete yet.
  std::uint64_t Next() {
    if (next_ - first_incomplete_ >= kSize) return 0;
    return next_++;
  }
  // Whoever called Next for seq will never send it again.
  void Complete(std::uint64_t seq) {
    RING_CHECK(seq >= first_incomplete_ && seq < next_) << "seq=" << seq;
    complete_[seq % kSize / 64] |= Bit(seq);
    while (first_incomplete_ < next_ &&
           (complete_[first_incomplete_ % kSize / 64] & Bit(first_incomplete_)) != 0) {
      complete_[first_incomplete_ % kSize / 64] &= ~Bit(first_incomplete_);
      ++first_incomplete_;
    }
  }
  std::uint64_t first_incomplete() const { return first_incomplete_; }
  bool idle() const { return first_incomplete_ == next_; }

 private:
  static constexpr std::uint64_t Bit(std::uint64_t seq) { return std::uint64_t{1} << (seq % 64); }
  std::uint64_t next_ = 1;
  std::uint64_t first_incomplete_ = 1;
  std::array<std::uint64_t, kSize / 64> complete_{};  // of numbers in [first_incomplete_, next_)
};

}  // namespace ring::api

#endif  // RING_API_CLIENT_SEQUENCE_H_
