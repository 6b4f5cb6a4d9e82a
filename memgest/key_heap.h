// memgest/key_heap.h — the bytes of keys that do not fit their metadata line.
//
// What:      A pool of pieces of 1 to 16 cells; a free list a size. Memory grows by 64 KiB and is
//            given back when the pool dies.
// Units:     bytes; pieces in cells of 64 bytes.
// Ownership: owns its chunks, which are ordinary process memory: no device reads keys from here.
// Threads:   one, the node's.
// Errors:    none; at most one key a line, so the line limit bounds it.
// Cost:      a pop or push of a free list.
#ifndef RING_MEMGEST_KEY_HEAP_H_
#define RING_MEMGEST_KEY_HEAP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"

namespace ring::memgest {

class KeyHeap {
 public:
  // Stores a copy; the handle finds it again. REQUIRES: 0 < key.size() <= 1,024.
  std::uint64_t Add(absl::string_view key);
  absl::string_view Get(std::uint64_t handle, std::size_t size) const;
  // size: of the key that Add got.
  void Remove(std::uint64_t handle, std::size_t size);

  std::uint64_t reserved_bytes() const { return std::uint64_t{chunks_.size()} * kChunkSize; }
  std::uint64_t used_bytes() const { return used_cells_ * 64; }

 private:
  static constexpr std::uint32_t kChunkSize = 64 * 1024;
  static constexpr std::uint32_t kChunkCells = kChunkSize / 64;
  static constexpr std::size_t kPieceCellsMax = 16;

  std::uint64_t TakePiece(std::size_t cells);

  std::vector<std::unique_ptr<char[]>> chunks_;
  std::uint32_t next_cell_ = kChunkCells;                            // of the last chunk
  std::array<std::vector<std::uint64_t>, kPieceCellsMax + 1> free_;  // handles, by cells
  std::uint64_t used_cells_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_KEY_HEAP_H_
