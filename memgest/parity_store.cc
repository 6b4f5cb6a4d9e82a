#include "memgest/parity_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ec_offload/kernels.h"
#include "memgest/size_class.h"
#include "memgest/srs_codec.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/base/zero.h"

namespace ring::memgest {

ParityStore::ParityStore(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, int s,
                         int parity_index)
    : codec_(MakeCodec(descriptor, s)),
      parity_index_(parity_index),
      heap_(device),
      shards_(static_cast<std::size_t>(s)) {}

absl::Status ParityStore::Ensure(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) {
  const std::uint64_t offset = std::uint64_t{offset_cells} * kCellSize;
  if (shard.value() >= shards_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard=", shard.value(), " of s=", shards_.size()));
  }
  if (length > layout().BlockRemainder(offset)) {
    return absl::InvalidArgumentError(absl::StrCat("delta offset_cells=", offset_cells,
                                                   " length=", length, " crosses a block of ",
                                                   layout().block_size(), " bytes"));
  }
  const std::uint64_t parity_offset = layout().Locate(shard.value(), offset).parity_offset;
  if (parity_offset + length > kSpaceSize) {
    return absl::InvalidArgumentError(absl::StrCat("delta offset_cells=", offset_cells,
                                                   ": its parity offset=", parity_offset,
                                                   " is past 2^32 cells"));
  }
  const auto cell = static_cast<std::uint32_t>(parity_offset / kCellSize);
  RING_RETURN_IF_ERROR(heap_.Ensure(cell, CellCount(length)));
  heap_.Touch(cell, CellCount(length));
  return absl::OkStatus();
}

absl::Status ParityStore::Apply(ShardId shard, std::uint32_t offset_cells, const std::byte* delta,
                                std::uint32_t length, std::uint64_t index) {
  RING_RETURN_IF_ERROR(Ensure(shard, offset_cells, length));
  ShardState& state = shards_[shard.value()];
  XorAt(shard, offset_cells, delta, CoveredLength(state, offset_cells, length));
  NoteTouch(state, std::uint64_t{offset_cells} * kCellSize, index);
  return absl::OkStatus();
}

void ParityStore::XorAt(ShardId shard, std::uint32_t offset_cells, const std::byte* bytes,
                        std::uint32_t length) {
  if (length == 0) return;
  const srs::Position position =
      layout().Locate(shard.value(), std::uint64_t{offset_cells} * kCellSize);
  ec_offload::XorInto(heap_.At(static_cast<std::uint32_t>(position.parity_offset / kCellSize)),
                      bytes, length);
}

void ParityStore::NoteTouch(ShardState& state, std::uint64_t offset, std::uint64_t index) {
  const std::uint64_t block = offset / layout().block_size();
  if (state.last_touch.size() <= block) state.last_touch.resize(block + 1);
  state.last_touch[block] = std::max(state.last_touch[block], index);
  extent_count_ =
      std::max(extent_count_, static_cast<std::uint32_t>(block / layout().blocks_per_shard() + 1));
}

std::uint64_t ParityStore::FromExtent(const srs::Layout& layout, std::uint64_t end_cells) {
  const std::uint64_t extent_cells = layout.extent_size() / kCellSize;
  return (end_cells + extent_cells - 1) / extent_cells;
}

void ParityStore::Await(ShardId shard) {
  RING_CHECK(!Holds(shard)) << "shard=" << shard.value() << ": its owner drops the store first";
  shards_[shard.value()].from_cells = kNever;
}

void ParityStore::BeginRebuild(ShardId shard, std::uint64_t end_cells) {
  RING_CHECK(!Holds(shard)) << "shard=" << shard.value() << ": its owner drops the store first";
  ShardState& state = shards_[shard.value()];
  state.from_cells = FromExtent(layout(), end_cells) * (layout().extent_size() / kCellSize);
}

// How much of the range, from its beginning on, is covered: it lies in one block, so all of it is
// on one side of from_cells.
std::uint32_t ParityStore::CoveredLength(const ShardState& state, std::uint32_t offset_cells,
                                         std::uint32_t length) const {
  if (offset_cells >= state.from_cells || Mutant("S6-early")) return length;
  if (offset_cells >= state.based_cells || Mutant("S6-late")) return 0;
  const std::uint64_t room = (state.based_cells - offset_cells) * kCellSize;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, room));
}

absl::Status ParityStore::CheckBase(ShardId shard, std::uint32_t offset_cells,
                                    std::uint32_t length) const {
  const std::uint64_t offset = std::uint64_t{offset_cells} * kCellSize;
  if (shard.value() >= shards_.size() || length == 0 || length % kCellSize != 0 ||
      length > layout().BlockRemainder(offset)) {
    return absl::InvalidArgumentError(absl::StrCat("base of shard=", shard.value(),
                                                   " offset_cells=", offset_cells,
                                                   " length=", length, " is no part of a block"));
  }
  const ShardState& state = shards_[shard.value()];
  const std::uint64_t end = std::uint64_t{offset_cells} + length / kCellSize;
  if (state.from_cells == 0 || (offset_cells <= state.based_cells && end <= state.from_cells)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("base of shard=", shard.value(), " offset_cells=", offset_cells,
                   " length=", length, ", based=", state.based_cells, " of ", state.from_cells));
}

absl::Status ParityStore::Base(ShardId shard, std::uint32_t offset_cells, const std::byte* bytes,
                               std::uint32_t length, std::uint64_t last_touch) {
  RING_RETURN_IF_ERROR(CheckBase(shard, offset_cells, length));
  ShardState& state = shards_[shard.value()];
  if (state.from_cells == 0) return absl::OkStatus();  // nothing of it was ever missing
  const std::uint64_t end = std::uint64_t{offset_cells} + length / kCellSize;
  const std::uint64_t first =
      Mutant("S6-twice") ? offset_cells : std::max<std::uint64_t>(offset_cells, state.based_cells);
  if (first < end && bytes != nullptr) {
    const auto skip = static_cast<std::uint32_t>((first - offset_cells) * kCellSize);
    XorAt(shard, static_cast<std::uint32_t>(first), bytes + skip, length - skip);
  }
  state.based_cells = std::max(state.based_cells, end);
  if (last_touch > 0) NoteTouch(state, std::uint64_t{offset_cells} * kCellSize, last_touch);
  return absl::OkStatus();
}

bool ParityStore::CoversRow(std::uint32_t extent, std::uint32_t row) const {
  const std::uint64_t block_cells = layout().block_size() / kCellSize;
  for (std::uint32_t column = 0; column < layout().parameters().k; ++column) {
    const srs::DataBlock data = layout().BlockOf(extent, row, column);
    const ShardState& state = shards_[data.shard];
    const std::uint64_t first = data.offset / kCellSize;
    if (first < state.from_cells && first + block_cells > state.based_cells) return false;
  }
  return true;
}

void ParityStore::ReleaseZeros(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) {
  constexpr std::uint32_t kPageSize = HeapSpace::kPageCells * kCellSize;
  const srs::Position position =
      layout().Locate(shard.value(), std::uint64_t{offset_cells} * kCellSize);
  const auto first = static_cast<std::uint32_t>(position.parity_offset / kCellSize);
  const auto zero = [this](std::uint32_t cell) { return IsZero(heap_.At(cell), kPageSize); };
  for (std::uint32_t done = 0; done < length; done += kPageSize) {
    const std::uint32_t cell = first + done / kCellSize;
    if (zero(cell)) heap_.Release(cell, HeapSpace::kPageCells);
  }
  released_.push_back(first >> HeapSpace::kChunkCellShift);
}

void ParityStore::FreeEmptied() {
  for (const std::uint32_t chunk : released_) heap_.FreeEmpty(chunk);
  released_.clear();
}

void ParityStore::Prefetch(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) const {
  if (shard.value() >= shards_.size()) return;
  const srs::Position position =
      layout().Locate(shard.value(), std::uint64_t{offset_cells} * kCellSize);
  if (position.parity_offset >= kSpaceSize) return;
  const auto cell = static_cast<std::uint32_t>(position.parity_offset / kCellSize);
  const std::uint32_t cells = CellCount(length);
  if (!heap_.Has(cell, 1)) return;
  const std::byte* at = heap_.At(cell);
  for (std::uint32_t i = 0; i < cells; ++i) __builtin_prefetch(at + std::size_t{i} * kCellSize, 1);
}

ParityStore::Row ParityStore::ReadRow(std::uint32_t extent, std::uint32_t row) const {
  RING_CHECK(row < layout().row_count()) << "row=" << row;
  Row result;
  const std::uint64_t at = layout().ParityOffset(extent, row);
  if (at + layout().block_size() <= kSpaceSize) {
    const auto cell = static_cast<std::uint32_t>(at / kCellSize);
    if (heap_.Has(cell, CellCount(layout().block_size()))) result.bytes = heap_.At(cell);
  }
  result.last_touch.resize(layout().parameters().k);
  for (std::uint32_t column = 0; column < layout().parameters().k; ++column) {
    const srs::DataBlock data = layout().BlockOf(extent, row, column);
    const std::vector<std::uint64_t>& last_touch = shards_[data.shard].last_touch;
    const std::uint64_t block = data.offset / layout().block_size();
    if (block < last_touch.size()) result.last_touch[column] = last_touch[block];
  }
  return result;
}

}  // namespace ring::memgest
