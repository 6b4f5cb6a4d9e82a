// memgest/heap_space.h — the address space of one heap or parity region.
//
// What:      Offsets in 64-byte cells, backed by chunks of the device's arena that appear when
//            first touched, zeroed (an extent is zero before its first use: S3), registered for
//            local use.
// Shape:     chunks of 2 MiB, in any order; a block (power of two <= 2 MiB) never crosses a chunk.
//            The first chunks have small pages, so that a young heap costs little; later
//            ones ask for huge pages.
// Units:     cells of 64 bytes; at most 2^32 of them.
// Ownership: owns its chunks and gives their pages back when it dies.
// Threads:   one, the node's.
// Errors:    Ensure: kResourceExhausted naming the range and what the arena said, kInvalidArgument
//            past 2^32 cells; what was there before stays.
// Cost:      At(): one load and an add.
// Source:    Ring section 5.1 (heap); protocol rules S3.
#ifndef RING_MEMGEST_HEAP_SPACE_H_
#define RING_MEMGEST_HEAP_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::memgest {

class HeapSpace {
 public:
  static constexpr int kChunkCellShift = 15;  // 2 MiB
  static constexpr std::uint32_t kChunkCells = 1u << kChunkCellShift;
  static constexpr std::uint32_t kChunkCellMask = kChunkCells - 1;
  static constexpr std::size_t kChunkSize = std::size_t{kChunkCells} * 64;
  // Chunks before a heap's memory comes in huge pages. A young heap has one block of each size
  // class, nearly empty: huge pages would make all of them resident.
  static constexpr std::size_t kSmallPageChunks = 8;

  explicit HeapSpace(rdma::Device* device) : device_(device) {}
  ~HeapSpace();
  HeapSpace(const HeapSpace&) = delete;
  HeapSpace& operator=(const HeapSpace&) = delete;

  // Makes the range usable. One load per chunk when it is already.
  absl::Status Ensure(std::uint32_t offset_cells, std::uint32_t length_cells) {
    if (Has(offset_cells, length_cells)) return absl::OkStatus();
    return EnsureSlow(offset_cells, length_cells);
  }
  bool Has(std::uint32_t offset_cells, std::uint32_t length_cells) const {
    const std::uint64_t last =
        std::uint64_t{offset_cells} + (length_cells > 0 ? length_cells - 1 : 0);
    for (std::uint64_t i = offset_cells >> kChunkCellShift; i <= last >> kChunkCellShift; ++i) {
      if (i >= chunks_.size() || chunks_[i].memory == nullptr) return false;
    }
    return true;
  }
  // REQUIRES, as lkey: Has(offset_cells). Bytes are contiguous up to the end of the chunk.
  std::byte* At(std::uint32_t offset_cells) const {
    return chunks_[offset_cells >> kChunkCellShift].memory +
           std::size_t{offset_cells & kChunkCellMask} * 64;
  }
  std::uint32_t lkey(std::uint32_t offset_cells) const {
    return chunks_[offset_cells >> kChunkCellShift].lkey;
  }
  // Address space taken from the arena; pages that were never touched are not resident.
  std::uint64_t reserved_bytes() const { return std::uint64_t{chunk_count_} * kChunkSize; }

 private:
  struct Chunk {
    std::byte* memory = nullptr;
    std::uint32_t lkey = 0;
  };
  absl::Status EnsureSlow(std::uint32_t offset_cells, std::uint32_t length_cells);
  absl::Status AddChunk(std::size_t index);

  rdma::Device* device_;
  std::vector<Chunk> chunks_;  // by offset; without memory: not touched yet
  std::size_t chunk_count_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_HEAP_SPACE_H_
