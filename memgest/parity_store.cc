#include "memgest/parity_store.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ec_offload/kernels.h"
#include "memgest/size_class.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

srs::Layout LayoutOf(const protocol::MemgestDescriptor& descriptor, int s) {
  srs::SrsParameters parameters;
  parameters.k = descriptor.k;
  parameters.m = descriptor.m;
  parameters.s = static_cast<std::uint32_t>(s);
  parameters.block_size = descriptor.block_size;
  absl::StatusOr<srs::Layout> layout = srs::Layout::Create(parameters);
  RING_CHECK(layout.ok()) << "memgest=" << descriptor.id.value() << ": "
                          << layout.status().message();
  return *layout;
}

}  // namespace

ParityStore::ParityStore(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, int s,
                         int parity_index)
    : layout_(LayoutOf(descriptor, s)),
      parity_index_(parity_index),
      heap_(device),
      last_touch_(static_cast<std::size_t>(s)) {}

absl::Status ParityStore::Ensure(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) {
  const std::uint64_t offset = std::uint64_t{offset_cells} * kCellSize;
  if (shard.value() >= last_touch_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard=", shard.value(), " of s=", last_touch_.size()));
  }
  if (length > layout_.BlockRemainder(offset)) {
    return absl::InvalidArgumentError(absl::StrCat("delta offset_cells=", offset_cells,
                                                   " length=", length, " crosses a block of ",
                                                   layout_.block_size(), " bytes"));
  }
  const std::uint64_t parity_offset = layout_.Locate(shard.value(), offset).parity_offset;
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
  const std::uint64_t offset = std::uint64_t{offset_cells} * kCellSize;
  const srs::Position position = layout_.Locate(shard.value(), offset);
  ec_offload::XorInto(heap_.At(static_cast<std::uint32_t>(position.parity_offset / kCellSize)),
                      delta, length);
  const std::uint64_t block = offset / layout_.block_size();
  std::vector<std::uint64_t>& last_touch = last_touch_[shard.value()];
  if (last_touch.size() <= block) last_touch.resize(block + 1);
  last_touch[block] = index;
  extent_count_ = std::max(extent_count_, static_cast<std::uint32_t>(position.extent + 1));
  return absl::OkStatus();
}

void ParityStore::ReleaseZeros(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) {
  constexpr std::uint32_t kPageSize = HeapSpace::kPageCells * kCellSize;
  const srs::Position position =
      layout_.Locate(shard.value(), std::uint64_t{offset_cells} * kCellSize);
  const auto first = static_cast<std::uint32_t>(position.parity_offset / kCellSize);
  const auto zero = [this](std::uint32_t cell) {
    const std::byte* const page = heap_.At(cell);
    return page[0] == std::byte{0} && std::memcmp(page, page + 1, kPageSize - 1) == 0;
  };
  for (std::uint32_t done = 0; done < length; done += kPageSize) {
    const std::uint32_t cell = first + done / kCellSize;
    if (zero(cell)) heap_.Release(cell, HeapSpace::kPageCells);
  }
}

void ParityStore::Prefetch(ShardId shard, std::uint32_t offset_cells, std::uint32_t length) const {
  if (shard.value() >= last_touch_.size()) return;
  const srs::Position position =
      layout_.Locate(shard.value(), std::uint64_t{offset_cells} * kCellSize);
  if (position.parity_offset >= kSpaceSize) return;
  const auto cell = static_cast<std::uint32_t>(position.parity_offset / kCellSize);
  const std::uint32_t cells = CellCount(length);
  if (!heap_.Has(cell, 1)) return;
  const std::byte* at = heap_.At(cell);
  for (std::uint32_t i = 0; i < cells; ++i) __builtin_prefetch(at + std::size_t{i} * kCellSize, 1);
}

ParityStore::Row ParityStore::ReadRow(std::uint32_t extent, std::uint32_t row) const {
  RING_CHECK(row < layout_.row_count()) << "row=" << row;
  Row result;
  const std::uint64_t at = layout_.ParityOffset(extent, row);
  if (at + layout_.block_size() <= kSpaceSize) {
    const auto cell = static_cast<std::uint32_t>(at / kCellSize);
    if (heap_.Has(cell, CellCount(layout_.block_size()))) result.bytes = heap_.At(cell);
  }
  result.last_touch.resize(layout_.parameters().k);
  for (std::uint32_t column = 0; column < layout_.parameters().k; ++column) {
    const srs::DataBlock data = layout_.BlockOf(extent, row, column);
    const std::vector<std::uint64_t>& last_touch = last_touch_[data.shard];
    const std::uint64_t block = data.offset / layout_.block_size();
    if (block < last_touch.size()) result.last_touch[column] = last_touch[block];
  }
  return result;
}

}  // namespace ring::memgest
