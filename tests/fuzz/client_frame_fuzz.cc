// A whole request ring is the input, laid out from a cell that its first two bytes choose.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "ring/base/check.h"
#include "ring/base/limits.h"
#include "ring/protocol/client_frame.h"

namespace {

struct AlignedDelete {
  void operator()(std::byte* bytes) const {
    operator delete[](bytes, std::align_val_t{ring::protocol::kCell});
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace protocol = ring::protocol;
  constexpr std::size_t kCells = protocol::kRequestRingSize / protocol::kCell;
  if (size < 2) return 0;
  static const std::unique_ptr<std::byte[], AlignedDelete> ring(
      new (std::align_val_t{protocol::kCell}) std::byte[protocol::kRequestRingSize]());
  std::size_t cell = (data[0] | std::size_t{data[1]} << 8) % kCells;
  const std::size_t start = cell * protocol::kCell;
  std::memset(ring.get(), 0, protocol::kRequestRingSize);
  std::memcpy(ring.get() + start, data + 2, std::min(size - 2, protocol::kRequestRingSize - start));
  protocol::RequestView view;
  std::size_t sum = 0;
  // As a node does: request after request, until one is refused or the ring's end is near.
  for (std::size_t count = 0; count < kCells && cell < kCells; ++count) {
    const protocol::Outcome outcome =
        protocol::DecodeRequest(ring.get(), cell, ring::kValueSizeMax, &view);
    if (outcome == protocol::Outcome::kBadRequest) break;
    RING_CHECK(view.size_cells > 0 && cell + view.size_cells <= kCells);
    cell += view.size_cells;
    if (outcome != protocol::Outcome::kOk) continue;
    if (view.header.word.operation == protocol::Operation::kPad) break;
    RING_CHECK(cell <= kCells - 1);
    for (const char c : view.key) sum += static_cast<unsigned char>(c);
    for (std::size_t i = 0; view.value != nullptr && i < view.header.value_length; ++i) {
      sum += static_cast<std::size_t>(view.value[i]);
    }
  }
  RING_CHECK(sum < std::size_t{256} * protocol::kRequestRingSize);
  return 0;
}
