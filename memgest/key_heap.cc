#include "memgest/key_heap.h"

#include <cstring>

#include "memgest/size_class.h"
#include "ring/base/check.h"

namespace ring::memgest {

std::uint64_t KeyHeap::TakePiece(std::size_t cells) {
  std::vector<std::uint64_t>& free = free_[cells];
  if (!free.empty()) {
    const std::uint64_t handle = free.back();
    free.pop_back();
    return handle;
  }
  if (kChunkCells - next_cell_ < cells) {
    // What is left of the last chunk is shorter than any piece asked for now: a piece of its own.
    if (next_cell_ < kChunkCells) {
      free_[kChunkCells - next_cell_].push_back((std::uint64_t{chunks_.size() - 1} << 32) |
                                                next_cell_);
    }
    chunks_.push_back(std::make_unique<char[]>(kChunkSize));
    next_cell_ = 0;
  }
  const std::uint64_t handle = (std::uint64_t{chunks_.size() - 1} << 32) | next_cell_;
  next_cell_ += static_cast<std::uint32_t>(cells);
  return handle;
}

std::uint64_t KeyHeap::Add(absl::string_view key) {
  const std::size_t cells = CellCount(key.size());
  RING_CHECK(cells > 0 && cells <= kPieceCellsMax) << "key size=" << key.size();
  const std::uint64_t handle = TakePiece(cells);
  used_cells_ += cells;
  std::memcpy(chunks_[handle >> 32].get() + (handle & 0xffffffff) * kCellSize, key.data(),
              key.size());
  return handle;
}

absl::string_view KeyHeap::Get(std::uint64_t handle, std::size_t size) const {
  return {chunks_[handle >> 32].get() + (handle & 0xffffffff) * kCellSize, size};
}

void KeyHeap::Remove(std::uint64_t handle, std::size_t size) {
  const std::size_t cells = CellCount(size);
  free_[cells].push_back(handle);
  used_cells_ -= cells;
}

}  // namespace ring::memgest
