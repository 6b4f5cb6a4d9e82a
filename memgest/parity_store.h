// memgest/parity_store.h — parity j of one SRS memgest in one group: folds deltas of all its
// shards.
//
// What:      Keeps P_j = XOR over i of g_ji * D_i(applied_j[i]) exactly (S1), with lastTouch per
//            (shard, block) so that a reader can ask for a row at a cut (S2). A new parity is
//            rebuilt shard by shard while entries go on (S6): of each shard it covers the cells
//            below what was based and those from the extent on that was unused when it came.
// Shape:     parity block (e, p) at offset (e*(l/k)+p)*B, as srs/layout.h. A delta arrives already
//            multiplied by this parity's coefficient, so no fold needs one. Rows that nobody
//            touched have no memory and are zero.
// Units:     offsets in cells of 64 bytes of a shard's heap; lengths in bytes.
// Ownership: owns its heap space.
// Threads:   one, the node's.
// Errors:    kInvalidArgument for a shard or range that is not of the memgest, or that crosses a
//            block, and for a Base that leaves a gap or lies where nothing is to be rebuilt;
//            kResourceExhausted for memory. Nothing was folded then. The parity has 2^32 cells and
//            s/k times as many blocks as a shard's heap, so here heaps end at k/s of 2^32 cells.
// Cost:      one read-modify-write of the payload.
// Source:    Ring section 5.3 (parity update); rules S1, S2, S3, S6; ADR 0018.
#ifndef RING_MEMGEST_PARITY_STORE_H_
#define RING_MEMGEST_PARITY_STORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "memgest/heap_space.h"
#include "ring/base/id.h"
#include "ring/protocol/memgest_descriptor.h"
#include "srs/codec.h"

namespace ring::memgest {

class ParityStore {
 public:
  static constexpr std::uint64_t kSpaceSize = std::uint64_t{64}
                                              << 32;  // of a heap and of the parity

  // REQUIRES: descriptor.Validate for a cluster of s shards.
  ParityStore(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, int s,
              int parity_index);

  // Checks the range and makes its parity memory exist: Apply cannot fail afterwards.
  absl::Status Ensure(ShardId shard, std::uint32_t offset_cells, std::uint32_t length);
  // Folds the delta of entry `index` of shard i at heap range [offset_cells, + length bytes): XOR
  // into the parity, as far as it covers the range. The rest comes with a Base that is still to
  // come (S6).
  absl::Status Apply(ShardId shard, std::uint32_t offset_cells, const std::byte* delta,
                     std::uint32_t length, std::uint64_t index);
  // S6: the shard's metadata is still to come, and says where this parity begins to count: until
  // then nothing of the shard is covered. REQUIRES: !Holds(shard).
  void Await(ShardId shard);
  bool awaits(ShardId shard) const { return shards_[shard.value()].from_cells == kNever; }
  // S6: this parity is new; the shard had used its heap below end_cells when its entries began to
  // come. Nothing of it is based yet. REQUIRES: !Holds(shard).
  void BeginRebuild(ShardId shard, std::uint64_t end_cells);
  // A BASE: what the shard has in the range, already multiplied; null: zeros. It goes on where the
  // one before ended; what is based already is not counted again. last_touch: the last index that
  // touched the block at the coordinator (S2). Ensure comes first, unless bytes is null.
  absl::Status Base(ShardId shard, std::uint32_t offset_cells, const std::byte* bytes,
                    std::uint32_t length, std::uint64_t last_touch);
  // Something of the shard is in the parity, which cannot be taken out of it.
  bool Holds(ShardId shard) const {
    return !shards_[shard.value()].last_touch.empty() || shards_[shard.value()].based_cells > 0;
  }
  // The extent from which on a new parity covers a shard that had used its heap below end_cells.
  static std::uint64_t FromExtent(const srs::Layout& layout, std::uint64_t end_cells);
  // All of the shard is covered; all blocks of the row are: it can be compared, and decoded with.
  bool Covers(ShardId shard) const {
    return shards_[shard.value()].based_cells >= shards_[shard.value()].from_cells;
  }
  bool CoversRow(std::uint32_t extent, std::uint32_t row) const;
  // Whether Apply would use a byte of a delta of this range, which lies in one block.
  bool CoversAny(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) const {
    return CoveredLength(shards_[shard.value()], offset_cells, length) > 0;
  }
  std::uint64_t based_cells(ShardId shard) const { return shards_[shard.value()].based_cells; }
  // RELEASE: pages of the range (whole ones, within a block) that are zero now, because no shard
  // has a byte in them, take no memory any more.
  void ReleaseZeros(ShardId shard, std::uint32_t offset_cells, std::uint32_t length);
  // Chunks that RELEASEs left empty go back. REQUIRES: what was Ensured is applied.
  void FreeEmptied();
  // The parity lines of the range, with intent to write. Nothing if they have no memory yet.
  void Prefetch(ShardId shard, std::uint32_t offset_cells, std::uint32_t length = 64) const;

  // The parity block of (extent, row) and, for each code column c of the row, the last folded index
  // that touched that column's block: taken together, atomically for the single thread (S2). Null
  // memory: never touched, all zero.
  struct Row {
    const std::byte* bytes = nullptr;
    std::vector<std::uint64_t> last_touch;  // by column
  };
  Row ReadRow(std::uint32_t extent, std::uint32_t row) const;
  std::uint32_t extent_count() const { return extent_count_; }  // extents ever touched
  int parity_index() const { return parity_index_; }
  std::uint32_t block_size() const { return static_cast<std::uint32_t>(layout().block_size()); }
  const srs::Layout& layout() const { return codec_.layout(); }
  // For who decodes its rows or compares them.
  const srs::Codec& codec() const { return codec_; }
  const HeapSpace& heap() const { return heap_; }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  struct ShardState {
    std::vector<std::uint64_t> last_touch;  // by block of its heap
    // Covered are the cells below based_cells and those from from_cells on.
    std::uint64_t based_cells = 0;
    std::uint64_t from_cells = 0;  // where an extent begins
  };
  std::uint32_t CoveredLength(const ShardState& state, std::uint32_t offset_cells,
                              std::uint32_t length) const;
  absl::Status CheckBase(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) const;
  void NoteTouch(ShardState& state, std::uint64_t offset, std::uint64_t index);
  void XorAt(ShardId shard, std::uint32_t offset_cells, const std::byte* bytes,
             std::uint32_t length);

  srs::Codec codec_;
  int parity_index_;
  HeapSpace heap_;
  std::vector<std::uint32_t> released_;  // chunks, since FreeEmptied
  std::uint32_t extent_count_ = 0;
  std::vector<ShardState> shards_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_PARITY_STORE_H_
