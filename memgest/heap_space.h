// memgest/heap_space.h — the address space of one heap or parity region.
//
// What:      Offsets in 64-byte cells, backed by chunks of the device's arena that appear when first touched, zeroed
//            (an extent is zero before its first use: S3), registered for local use.
// Shape:     chunks of 2 MiB; a block (power of two <= 2 MiB) never crosses a chunk.
// Ownership: owns its chunks.
// Threads:   one, the node's.
// Errors:    Ensure: kResourceExhausted naming the arena's limit.
// Cost:      At(): one load and an add.
// Source:    Ring section 5.1 (heap); protocol rules S3.
#ifndef RING_MEMGEST_HEAP_SPACE_H_
#define RING_MEMGEST_HEAP_SPACE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::memgest {

class HeapSpace {
 public:
  static constexpr int kChunkCellShift = 15;  // 2 MiB
  static constexpr std::uint32_t kChunkCellMask = (1u << kChunkCellShift) - 1;

  explicit HeapSpace(rdma::Device* device) : device_(device) {}

  absl::Status Ensure(std::uint32_t offset_cells, std::uint32_t length_cells);
  bool Has(std::uint32_t offset_cells, std::uint32_t length_cells) const;
  std::byte* At(std::uint32_t offset_cells) const {
    return chunks_[offset_cells >> kChunkCellShift].memory +
           std::size_t{offset_cells & kChunkCellMask} * 64;
  }
  std::uint32_t lkey(std::uint32_t offset_cells) const {
    return chunks_[offset_cells >> kChunkCellShift].lkey;
  }
  std::uint64_t reserved_bytes() const {
    return std::uint64_t{chunks_.size()} << (kChunkCellShift + 6);
  }

 private:
  struct Chunk {
    std::byte* memory = nullptr;
    std::uint32_t lkey = 0;
    std::unique_ptr<rdma::MemoryRegion> region;
  };
  rdma::Device* device_;
  std::vector<Chunk> chunks_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_HEAP_SPACE_H_
