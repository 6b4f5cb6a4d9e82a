// memgest/value_piece.h — part of a value, as it travels to who lacks it.
//
// What:      ValuePiece: bytes of a value and how long all of it is; PieceReader collects them from
//            the runs of memory that the value lies in.
// Ownership: values.
// Threads:   pure.
// Errors:    none. A piece has no check sum: who puts the value together compares all of it (S12).
// Cost:      one copy of the piece, whatever the value's length.
#ifndef RING_MEMGEST_VALUE_PIECE_H_
#define RING_MEMGEST_VALUE_PIECE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace ring::memgest {

struct ValuePiece {
  std::string bytes;  // empty behind the value's end
  std::uint32_t value_length = 0;
};

class PieceReader {
 public:
  // The bytes [first, first + size) of a value.
  PieceReader(std::uint32_t value_length, std::uint64_t first, std::size_t size)
      : first_(first), end_(std::min<std::uint64_t>(value_length, first + size)) {
    piece_.value_length = value_length;
    if (first_ < end_) piece_.bytes.reserve(end_ - first_);
  }
  // The value's runs, in order.
  void Add(const std::byte* bytes, std::size_t size) {
    const std::uint64_t begin = std::max(first_, at_);
    const std::uint64_t end = std::min(end_, at_ + size);
    if (begin < end)
      piece_.bytes.append(reinterpret_cast<const char*>(bytes) + (begin - at_), end - begin);
    at_ += size;
  }
  ValuePiece Take() { return std::move(piece_); }

 private:
  ValuePiece piece_;
  std::uint64_t first_;
  std::uint64_t end_;
  std::uint64_t at_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_VALUE_PIECE_H_
