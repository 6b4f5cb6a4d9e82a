// ring/base/wire.h — little-endian fields appended to a string and taken off one.
//
// What:      ByteWriter and ByteReader, for encodings whose fields vary in number or length.
// Shape:     integers little-endian and unpadded; a string is a u16 length and its bytes; bytes
//            are written as they are, their size is the caller's to write before.
// Ownership: the writer owns its bytes; the reader borrows.
// Threads:   thread-compatible.
// Errors:    a read past the end makes the reader fail for good and yields zeros; ask ok() once.
#ifndef RING_BASE_WIRE_H_
#define RING_BASE_WIRE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"

namespace ring {

static_assert(std::endian::native == std::endian::little, "the encodings are little-endian");

class ByteWriter {
 public:
  static constexpr std::size_t kStringSizeMax = 0xffff;

  template <class T>
  requires std::is_integral_v<T>
  void Put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  // REQUIRES: at most kStringSizeMax bytes.
  void PutString(absl::string_view text) {
    RING_CHECK(text.size() <= kStringSizeMax) << "string_size=" << text.size();
    Put(static_cast<std::uint16_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  void PutBytes(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  std::string& bytes() { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : rest_(bytes) {}

  template <class T>
  requires std::is_integral_v<T> T Get() {
    T value{};
    if (!Need(sizeof(value))) return value;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  absl::string_view GetString() {
    const std::size_t size = Get<std::uint16_t>();
    return GetBytes(size);
  }
  absl::string_view GetBytes(std::size_t size) {
    if (!Need(size)) return {};
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  bool ok() const { return ok_; }
  // Everything was there, and nothing is left.
  bool finished() const { return ok_ && rest_.empty(); }
  // What is left, for a decoder of another folder that takes its own part off the front.
  absl::string_view* rest() { return &rest_; }

 private:
  bool Need(std::size_t size) {
    if (ok_ && rest_.size() < size) {
      ok_ = false;
      rest_ = {};
    }
    return ok_;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace ring

#endif  // RING_BASE_WIRE_H_
