#include "memgest/heap_space.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

rdma::MemoryKind KindOf(bool huge) {
  return huge ? rdma::MemoryKind::kPrivateHuge : rdma::MemoryKind::kPrivate;
}

}  // namespace

HeapSpace::~HeapSpace() {
  for (Chunk& chunk : chunks_) {
    if (chunk.memory == nullptr) continue;
    device_->Free(chunk.memory, kChunkSize, KindOf(chunk.huge));
  }
}

absl::Status HeapSpace::EnsureSlow(std::uint32_t offset_cells, std::uint32_t length_cells) {
  const std::uint64_t end = std::uint64_t{offset_cells} + length_cells;
  if (end > std::uint64_t{1} << 32) {
    return absl::InvalidArgumentError(absl::StrCat("heap offset_cells=", offset_cells,
                                                   " length_cells=", length_cells,
                                                   ": a heap has 2^32 cells"));
  }
  const std::size_t last = (end - (length_cells > 0 ? 1 : 0)) >> kChunkCellShift;
  for (std::size_t i = offset_cells >> kChunkCellShift; i <= last; ++i) {
    if (i < chunks_.size() && chunks_[i].memory != nullptr) continue;
    RING_RETURN_IF_ERROR(AddChunk(i));
  }
  return absl::OkStatus();
}

absl::Status HeapSpace::AddChunk(std::size_t index) {
  // Values of many sizes leave most of their first blocks untouched, whatever the heap's age.
  const bool dense = touched_bytes() >= reserved_bytes() / 4 * 3;
  const bool huge = chunk_count_ >= kSmallPageChunks && dense;
  absl::StatusOr<std::byte*> memory = device_->Allocate(kChunkSize, KindOf(huge));
  if (!memory.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("heap chunk=", index, " size=", kChunkSize, ": ", memory.status().message(),
                     "; raise the node's memory limit or delete values"));
  }
  if (index >= chunks_.size()) chunks_.resize(index + 1);
  Chunk& chunk = chunks_[index];
  chunk.memory = *memory;
  chunk.lkey = device_->LocalKey(*memory);
  chunk.huge = huge;
  ++chunk_count_;
  return absl::OkStatus();
}

std::uint64_t HeapSpace::resident_bytes() const {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks_) {
    std::uint64_t count = 0;
    for (const std::uint64_t word : chunk.touched)
      count += static_cast<unsigned>(std::popcount(word));
    if (count > 0 && chunk.huge) count = kChunkPages;
    bytes += count * kPageCells * 64;
  }
  return bytes;
}

void HeapSpace::MarkElsewhere(std::uint32_t offset_cells, std::uint32_t length_cells) {
  std::uint32_t page = offset_cells / kPageCells;
  const std::uint32_t end = page + length_cells / kPageCells;
  const std::size_t chunks = (end + kChunkPages - 1) / kChunkPages;
  if (chunks_.size() < chunks) chunks_.resize(chunks);
  while (page < end) {  // a word of the maps at a time
    const std::uint32_t count = std::min(64 - page % 64, end - page);
    const std::uint64_t range = ~std::uint64_t{0} >> (64 - count) << (page % 64);
    Chunk& chunk = chunks_[page / kChunkPages];
    std::uint64_t& elsewhere = chunk.elsewhere[page / 64 % kMapWords];
    const std::uint64_t added = range & ~(chunk.touched[page / 64 % kMapWords] | elsewhere);
    elsewhere |= added;
    elsewhere_count_ += static_cast<std::uint32_t>(std::popcount(added));
    page += count;
  }
}

void HeapSpace::Release(std::uint32_t offset_cells, std::uint32_t length_cells) {
  RING_CHECK(offset_cells % kPageCells == 0 && length_cells % kPageCells == 0)
      << "offset_cells=" << offset_cells << " length_cells=" << length_cells;
  while (length_cells > 0) {
    const std::uint32_t size =
        std::min(length_cells, kChunkCells - (offset_cells & kChunkCellMask));
    if (offset_cells >> kChunkCellShift < chunks_.size()) {
      for (std::uint32_t page = 0; page < size / kPageCells; ++page) {
        const std::uint32_t number = offset_cells / kPageCells + page;
        ForgetElsewhere(number);
        if (!Touched(number)) continue;
        TouchedWord(number) &= ~(std::uint64_t{1} << (number % 64));
        --touched_count_;
      }
      if (Has(offset_cells, 1)) device_->Discard(At(offset_cells), std::size_t{size} * 64);
    }
    offset_cells += size;
    length_cells -= size;
  }
}

bool HeapSpace::FreeEmpty(std::uint32_t number) {
  if (number == 0 || number >= chunks_.size() || chunks_[number].memory == nullptr) return false;
  Chunk& chunk = chunks_[number];
  for (std::size_t word = 0; word < kMapWords; ++word) {
    if ((chunk.touched[word] | chunk.elsewhere[word]) != 0) return false;
  }
  device_->Free(chunk.memory, kChunkSize, KindOf(chunk.huge));
  chunk = Chunk{};
  --chunk_count_;
  return true;
}

}  // namespace ring::memgest
