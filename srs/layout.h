// srs/layout.h — the stretched layout: which parity bytes cover which data bytes.
//
// What:      Layout maps an offset of a shard's heap to its code column, parity row and offset at
//            the parity nodes, and a parity row back to the data blocks that it covers.
// Shape:     l = lcm(k,s) data blocks form a stretched stripe. The heap of each shard is cut into
//            extents of l/s blocks; extent e of all s shards is one stripe. Block b of shard i is
//            the stripe's block t = i*(l/s)+b, in column t / (l/k) and row t mod (l/k). A parity
//            node holds row p of extent e at (e*(l/k)+p)*B; it covers the blocks c*(l/k)+p for c =
//            0 .. k-1, which are on k distinct shards.
// Units:     bytes; shards, blocks, columns, rows and extents count from 0.
// Threads:   immutable after construction.
// Errors:    Create refuses what Validate refuses. Arguments out of range are the caller's error,
//            checked in debug builds only.
// Cost:      Locate: a shift, a multiplication, one load from a table of at most 960 bytes.
// Source:    Ring section 3.3, Eqn (2) and Figure 1.
#ifndef RING_SRS_LAYOUT_H_
#define RING_SRS_LAYOUT_H_

#include <array>
#include <bit>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ring/base/check.h"
#include "srs/parameters.h"

namespace ring::srs {

// Where a byte of a shard lies in the code.
struct Position {
  std::uint64_t extent = 0;
  std::uint32_t block = 0;          // in the shard's part of the extent
  std::uint32_t stripe_block = 0;   // t
  std::uint32_t column = 0;         // which coefficient g_j multiplies it
  std::uint32_t row = 0;            // parity row within the extent
  std::uint64_t parity_offset = 0;  // of the byte, in the memory of every parity node
};

// A data block that a parity row covers.
struct DataBlock {
  std::uint32_t shard = 0;
  std::uint32_t block = 0;   // in the shard's part of the extent
  std::uint64_t offset = 0;  // of its first byte, in the shard's heap
};

class Layout {
 public:
  // A shard's heap has fewer blocks than this (1 TiB of 4 KiB blocks), which makes the division
  // exact.
  static constexpr std::uint64_t kBlockIndexEnd = std::uint64_t{1} << 28;

  static absl::StatusOr<Layout> Create(const SrsParameters& parameters,
                                       std::uint64_t block_size_min = kBlockSizeMin);

  const SrsParameters& parameters() const { return parameters_; }
  std::uint64_t block_size() const { return parameters_.block_size; }
  std::uint32_t stripe_block_count() const { return parameters_.k * row_count_; }
  // l/s: blocks of a shard in an extent.
  std::uint32_t blocks_per_shard() const { return blocks_per_shard_; }
  // l/k: parity rows of an extent.
  std::uint32_t row_count() const { return row_count_; }
  // Bytes of a shard's heap, and of a parity node's memory, that an extent takes.
  std::uint64_t extent_size() const { return blocks_per_shard_ * block_size(); }
  std::uint64_t parity_extent_size() const { return row_count_ * block_size(); }

  Position Locate(std::uint32_t shard, std::uint64_t offset) const {
    RING_DCHECK(shard < parameters_.s) << "shard=" << shard;
    const std::uint64_t index = offset >> block_shift_;
    RING_DCHECK(index < kBlockIndexEnd) << "offset=" << offset;
    Position position;
    position.extent = (index * reciprocal_of_blocks_per_shard_) >> 32;
    position.block = static_cast<std::uint32_t>(index - position.extent * blocks_per_shard_);
    position.stripe_block = shard * blocks_per_shard_ + position.block;
    const Cell& cell = cells_[position.stripe_block];
    position.column = cell.column;
    position.row = cell.row;
    position.parity_offset =
        ParityOffset(position.extent, position.row) + (offset & (block_size() - 1));
    return position;
  }

  // Bytes from offset to the end of its block: what one Position is good for.
  std::uint64_t BlockRemainder(std::uint64_t offset) const {
    return block_size() - (offset & (block_size() - 1));
  }

  std::uint64_t ParityOffset(std::uint64_t extent, std::uint32_t row) const {
    RING_DCHECK(row < row_count_) << "row=" << row;
    return (extent * row_count_ + row) << block_shift_;
  }

  // The block in `column` of a parity row.
  DataBlock BlockOf(std::uint64_t extent, std::uint32_t row, std::uint32_t column) const {
    RING_DCHECK(row < row_count_) << "row=" << row;
    RING_DCHECK(column < parameters_.k) << "column=" << column;
    const Cell& cell = cells_[column * row_count_ + row];
    return {cell.shard, cell.block, extent * extent_size() + cell.block * block_size()};
  }

 private:
  struct Cell {
    std::uint8_t column = 0;
    std::uint8_t row = 0;
    std::uint8_t shard = 0;
    std::uint8_t block = 0;
  };

  explicit Layout(const SrsParameters& parameters);

  SrsParameters parameters_;
  std::uint32_t block_shift_ = 0;
  std::uint32_t blocks_per_shard_ = 0;
  std::uint32_t row_count_ = 0;
  std::uint64_t reciprocal_of_blocks_per_shard_ = 0;  // rounded up, times 2^32
  std::array<Cell, kStripeBlockCountMax> cells_{};    // by stripe block
};

}  // namespace ring::srs

#endif  // RING_SRS_LAYOUT_H_
