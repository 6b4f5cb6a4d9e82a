#include "memgest/heap_space.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::memgest {

HeapSpace::~HeapSpace() {
  for (Chunk& chunk : chunks_) {
    if (chunk.memory == nullptr) continue;
    device_->Discard(chunk.memory, kChunkSize);
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
  absl::StatusOr<std::byte*> memory =
      device_->Allocate(kChunkSize, chunk_count_ >= kSmallPageChunks);
  if (!memory.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("heap chunk=", index, " size=", kChunkSize, ": ", memory.status().message(),
                     "; raise the node's memory limit or delete values"));
  }
  if (index >= chunks_.size()) chunks_.resize(index + 1);
  chunks_[index] = {*memory, device_->LocalKey(*memory)};
  ++chunk_count_;
  return absl::OkStatus();
}

}  // namespace ring::memgest
