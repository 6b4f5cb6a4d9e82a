// memgest/heap_space.h — the address space of one heap or parity region.
//
// What:      Offsets in 64-byte cells, backed by chunks of the device's arena that appear when
//            first touched, zeroed (an extent is zero before its first use: S3), registered for
//            local use. Knows which pages were touched, and gives back those that its owner needs
//            no more: they read as zero then. Chunks without such pages can go back as well, and
//            serve other heaps. Apart from that it keeps in mind which pages members may hold, for
//            who takes a shard over.
// Shape:     chunks of 2 MiB, in any order; a block (power of two <= 2 MiB) never crosses a chunk.
//            The first chunks have small pages, so that a young heap costs little; a later one asks
//            for huge pages if those before it were well used.
// Units:     cells of 64 bytes; at most 2^32 of them.
// Ownership: owns its chunks and gives back what is left of them when it dies.
// Threads:   one, the node's.
// Errors:    Ensure: kResourceExhausted naming the range and what the arena said, kInvalidArgument
//            past 2^32 cells; what was there before stays.
// Cost:      At(): one load and an add. Touch(): a bit of a chunk's map for each page.
// Source:    Ring section 5.1 (heap); rule S3.
#ifndef RING_MEMGEST_HEAP_SPACE_H_
#define RING_MEMGEST_HEAP_SPACE_H_

#include <array>
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
  static constexpr std::uint32_t kPageCells = 64;
  static constexpr std::uint32_t kChunkPages = kChunkCells / kPageCells;
  // Chunks before a heap's memory comes in huge pages. A young heap has one block of each size
  // class, nearly empty: huge pages would make all of them resident.
  static constexpr std::size_t kSmallPageChunks = 8;

  explicit HeapSpace(rdma::Device* device) : device_(device) {}
  ~HeapSpace();
  // What is left behind may only be destroyed.
  HeapSpace(HeapSpace&&) = default;
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
  // The bytes are, or will be, written: their pages count as touched. REQUIRES: Has the range.
  void Touch(std::uint32_t offset_cells, std::uint32_t length_cells) {
    if (length_cells == 0) return;
    const std::uint32_t last = (offset_cells + (length_cells - 1)) / kPageCells;
    for (std::uint32_t page = offset_cells / kPageCells; page <= last; ++page) {
      std::uint64_t& word = TouchedWord(page);
      const std::uint64_t bit = std::uint64_t{1} << (page % 64);
      if ((word & bit) != 0) continue;
      word |= bit;
      ++touched_count_;
      ForgetElsewhere(page);
    }
  }
  // Page p covers cells [64 p, 64 p + 64).
  bool Touched(std::uint32_t page) const {
    const std::size_t chunk = page / kChunkPages;
    return chunk < chunks_.size() &&
           (chunks_[chunk].touched[page / 64 % kMapWords] >> page % 64 & 1);
  }
  // Members may hold bytes in these pages that this heap never had. It costs no memory, whether the
  // heap has the range or not, and such a page is neither touched nor resident. REQUIRES: the range
  // begins and ends at a page.
  void MarkElsewhere(std::uint32_t offset_cells, std::uint32_t length_cells);
  // Touched, or marked and not given back since.
  bool Held(std::uint32_t page) const {
    const std::size_t chunk = page / kChunkPages;
    if (chunk >= chunks_.size()) return false;
    const std::size_t word = page / 64 % kMapWords;
    return ((chunks_[chunk].touched[word] | chunks_[chunk].elsewhere[word]) >> page % 64 & 1) != 0;
  }
  // Gives the pages of the range back, whether touched or not, whether there or not: it reads as
  // zero. REQUIRES: it begins and ends at a page, and nothing refers to its bytes.
  void Release(std::uint32_t offset_cells, std::uint32_t length_cells);
  // Gives the chunk's memory back if it is there and none of its pages is Held. Not the first
  // chunk's: a heap whose one value comes and goes would take it again each time. Gives whether it
  // did. REQUIRES: nobody counts on the chunk's being there.
  bool FreeEmpty(std::uint32_t chunk);
  // Whether the chunk came in huge pages: of these, single small ones are not worth giving back.
  bool huge(std::uint32_t offset_cells) const {
    const std::size_t chunk = offset_cells >> kChunkCellShift;
    return chunk < chunks_.size() && chunks_[chunk].huge;
  }
  // Touched pages; of a chunk in huge pages all, if any.
  std::uint64_t resident_bytes() const;
  std::uint64_t touched_bytes() const { return std::uint64_t{touched_count_} * kPageCells * 64; }
  // Of pages that are Held.
  std::uint64_t held_bytes() const {
    return touched_bytes() + std::uint64_t{elsewhere_count_} * kPageCells * 64;
  }
  // Address space taken from the arena; pages that were never touched are not resident.
  std::uint64_t reserved_bytes() const { return std::uint64_t{chunk_count_} * kChunkSize; }

 private:
  static constexpr std::size_t kMapWords = kChunkPages / 64;
  struct Chunk {
    std::byte* memory = nullptr;
    std::uint32_t lkey = 0;
    bool huge = false;
    std::array<std::uint64_t, kMapWords> touched{};    // by page
    std::array<std::uint64_t, kMapWords> elsewhere{};  // ... of those that are not touched
  };
  std::uint64_t& TouchedWord(std::uint32_t page) {
    return chunks_[page / kChunkPages].touched[page / 64 % kMapWords];
  }
  void ForgetElsewhere(std::uint32_t page) {
    if (elsewhere_count_ == 0) return;
    std::uint64_t& word = chunks_[page / kChunkPages].elsewhere[page / 64 % kMapWords];
    const std::uint64_t bit = std::uint64_t{1} << (page % 64);
    elsewhere_count_ -= (word & bit) != 0 ? 1 : 0;
    word &= ~bit;
  }
  absl::Status EnsureSlow(std::uint32_t offset_cells, std::uint32_t length_cells);
  absl::Status AddChunk(std::size_t index);

  rdma::Device* device_;
  std::vector<Chunk> chunks_;  // by offset; without memory: not touched yet, or freed
  std::size_t chunk_count_ = 0;
  std::uint32_t touched_count_ = 0;    // pages
  std::uint32_t elsewhere_count_ = 0;  // ... that are marked
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_HEAP_SPACE_H_
