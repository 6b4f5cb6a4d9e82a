// tests/fuzz/fuzz_input.h — a fuzzer's bytes, taken from the front.
//
// What:      FuzzInput: numbers and runs of bytes for targets that make choices of them. RoundTrip:
//            what a message's decoder and encoder owe each other.
// Ownership: borrows the bytes.
// Threads:   one.
// Errors:    none: at the end a number is 0, and a run has fewer bytes than asked for. RoundTrip
//            ends the process.
#ifndef RING_TESTS_FUZZ_FUZZ_INPUT_H_
#define RING_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"

namespace ring::testing {

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  std::uint32_t Short() {
    const std::uint32_t low = Byte();
    return low | std::uint32_t{Byte()} << 8;
  }
  void Copy(void* target, std::size_t size) {
    size = std::min(size, size_);
    if (size > 0) std::memcpy(target, data_, size);
    data_ += size;
    size_ -= size;
  }
  std::string Take(std::size_t size) {
    std::string taken(std::min(size, size_), '\0');
    Copy(taken.data(), taken.size());
    return taken;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// What was understood says the same again, though not always in the same bytes.
template <class Decode, class Encode>
void RoundTrip(absl::string_view bytes, Decode decode, Encode encode) {
  const auto decoded = decode(bytes);
  if (!decoded.ok()) return;
  const std::string again = encode(*decoded);
  const auto twice = decode(again);
  RING_CHECK(twice.ok()) << twice.status();
  RING_CHECK(encode(*twice) == again);
}

}  // namespace ring::testing

#endif  // RING_TESTS_FUZZ_FUZZ_INPUT_H_
