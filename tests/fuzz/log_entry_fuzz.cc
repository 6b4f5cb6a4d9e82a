// Fuzzes DecodeEntry: the bytes as they are, and with both CRCs put right, so that what lies behind
// them is reached. Whatever is decoded must lie within the bytes given. What a member would fold as
// a BASE goes to a parity that is rebuilt (S6): it takes what continues its rebuild, or nothing.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "memgest/entry_check.h"
#include "memgest/log_entry.h"
#include "memgest/parity_store.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "tests/memgest/twin_device.h"

namespace ring::memgest {
namespace {

struct AlignedLine {
  alignas(64) std::byte bytes[64];
};

// In [start, start + size], read to the end, so that a sanitizer sees it.
std::size_t Touch(const void* data, std::size_t length, const std::byte* start, std::size_t size) {
  if (length == 0) return 0;
  const auto* bytes = static_cast<const std::byte*>(data);
  RING_CHECK(bytes >= start && bytes + length <= start + size);
  return Crc32c(data, length) & 1U;
}

void Fold(const EntryView& view) {
  const EntryHeader& header = view.header;
  if (!CheckEntryForFold(view).ok() || header.type != EntryType::kBase) return;
  protocol::MemgestDescriptor descriptor;
  descriptor.id = MemgestId(6);
  descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
  descriptor.k = 2;
  descriptor.m = 1;
  descriptor.block_size = 4096;
  TwinDevice device;
  ParityStore parity(&device, descriptor, 3, 0);
  constexpr std::uint64_t kEndCells = 128;
  parity.BeginRebuild(ShardId(1), kEndCells);
  const bool bytes = header.payload_length > 0;
  if (bytes && !parity.Ensure(ShardId(1), header.offset_cells, header.payload_length).ok()) {
    return;
  }
  const absl::Status based =
      parity.Base(ShardId(1), header.offset_cells, bytes ? view.payload : nullptr,
                  header.value_length, header.version);
  RING_CHECK(parity.based_cells(ShardId(1)) <= kEndCells);
  RING_CHECK(parity.based_cells(ShardId(1)) == (based.ok() ? header.value_length / 64 : 0));
}

void Decode(const std::byte* bytes, std::size_t size, const EntryHeader& header) {
  // An allocation of exactly the size: reads beyond are seen.
  auto* copy = static_cast<std::byte*>(std::malloc(size));
  RING_CHECK(copy != nullptr);
  std::memcpy(copy, bytes, size);
  for (const bool check_payload : {false, true}) {
    const auto view = DecodeEntry(absl::MakeConstSpan(copy, size), header.position,
                                  Epoch(header.epoch), header.prev_crc, check_payload);
    if (!view.ok()) continue;
    RING_CHECK(view->size <= size && IsAligned(view->size, kEntryAlignment));
    RING_CHECK(view->key.size() <= kEntryKeySizeMax && view->collect.size() <= kCollectCountMax);
    RING_CHECK(view->ranges.size() <= kRangeCountMax);
    std::size_t touched = Touch(view->key.data(), view->key.size(), copy, view->size);
    touched += Touch(view->ranges.data(), view->ranges.size() * sizeof(Range), copy, view->size);
    touched +=
        Touch(view->collect.data(), view->collect.size() * sizeof(CollectItem), copy, view->size);
    touched += Touch(view->payload, view->header.payload_length, copy, view->size);
    RING_CHECK(touched <= 4);
    if (check_payload) Fold(*view);
  }
  std::free(copy);
}

// Puts magic, CRCs and trailer right, as far as the sizes in the header allow.
void Repair(std::byte* bytes, std::size_t size) {
  EntryHeader header;
  std::memcpy(&header, bytes, sizeof(header));
  header.magic = kEntryMagic;
  header.reserved = 0;
  header.header_crc = 0;
  header.position = header.position / kEntryAlignment * kEntryAlignment;
  std::memcpy(bytes, &header, sizeof(header));
  const std::size_t head_size =
      kEntryHeaderSize + std::size_t{header.extension_cells} * kEntryAlignment;
  if (head_size > size) return;
  header.header_crc = Crc32c(bytes, head_size);
  std::memcpy(bytes, &header, sizeof(header));
  const std::size_t trailer_at = head_size + AlignUp(header.payload_length, kEntryAlignment);
  if (trailer_at + kEntryTrailerSize > size) return;
  EntryTrailer trailer;
  trailer.position = header.position;
  trailer.payload_crc = Crc32c(bytes + head_size, header.payload_length);
  std::memcpy(bytes + trailer_at, &trailer, sizeof(trailer));
}

}  // namespace
}  // namespace ring::memgest

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace memgest = ring::memgest;
  if (size < memgest::kEntryHeaderSize || size > 2 * memgest::kPayloadSizeMax) return 0;
  std::vector<memgest::AlignedLine> lines(size / sizeof(memgest::AlignedLine) + 1);
  std::byte* bytes = lines[0].bytes;
  std::memcpy(bytes, data, size);
  memgest::EntryHeader header;
  std::memcpy(&header, bytes, sizeof(header));
  memgest::Decode(bytes, size, header);
  memgest::Repair(bytes, size);
  std::memcpy(&header, bytes, sizeof(header));
  memgest::Decode(bytes, size, header);
  return 0;
}
