#include "memgest/memgest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/parity_store.h"
#include "memgest/srs_codec.h"

namespace ring::memgest {
namespace {

std::optional<srs::Codec> CodecOf(const protocol::MemgestDescriptor& descriptor, int s) {
  if (descriptor.scheme != protocol::Scheme::kStretchedReedSolomon) return std::nullopt;
  return MakeCodec(descriptor, s);
}

// An extent has more parity rows than a shard has blocks in it, and all of them must have a place
// in the 2^32 cells of the parities (S4).
std::uint32_t BlockLimit(const std::optional<srs::Codec>& codec) {
  if (!codec.has_value()) return ~std::uint32_t{0};
  const srs::Layout& layout = codec->layout();
  const std::uint64_t extents = ParityStore::kSpaceSize / layout.parity_extent_size();
  return static_cast<std::uint32_t>(extents * layout.blocks_per_shard());
}

}  // namespace

Memgest::Memgest(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, ShardId shard,
                 int s, int d, LineTable* lines, std::optional<HeapSpace> heap)
    : descriptor_(descriptor),
      shard_(shard),
      codec_(CodecOf(descriptor, s)),
      heap_(heap.has_value() ? *std::move(heap) : HeapSpace(device)),
      allocator_(descriptor.id, descriptor.block_size, lines, &heap_, BlockLimit(codec_)),
      members_(descriptor, descriptor.MemberRoles(shard, s, d)),
      failures_tolerated_(descriptor.FailuresTolerated()) {
  if (!coded()) return;
  using ec_offload::DeltaCalculator;
  for (std::uint32_t column = 0; column < descriptor.k; ++column) {
    calculators_.push_back(codec_->Delta(column, DeltaCalculator::Slot::kWrittenUnsummed));
    delta_calculators_.push_back(codec_->Delta(column, DeltaCalculator::Slot::kUntouched));
  }
}

const ec_offload::DeltaCalculator& Memgest::CalculatorAt(std::uint32_t offset_cells) const {
  return calculators_[ColumnAt(offset_cells)];
}

const ec_offload::DeltaCalculator& Memgest::DeltasAt(std::uint32_t offset_cells) const {
  return delta_calculators_[ColumnAt(offset_cells)];
}

std::uint32_t Memgest::source_count() const {
  return descriptor_.m < 2 ? 0u : std::uint32_t{descriptor_.k} + descriptor_.m;
}

std::uint32_t Memgest::SourceMask(std::uint32_t block, std::uint32_t i) const {
  const std::uint64_t offset = std::uint64_t{block} * allocator_.block_size();
  return codec_->layout().Locate(shard_.value(), offset).column == i ? 0u : 1u << i;
}

std::string Memgest::SourceName(std::uint32_t block, std::uint32_t i) const {
  if (i >= descriptor_.k) return absl::StrCat("parity=", i - descriptor_.k);
  const srs::Layout& layout = codec_->layout();
  const srs::Position at =
      layout.Locate(shard_.value(), std::uint64_t{block} * allocator_.block_size());
  const srs::DataBlock data = layout.BlockOf(at.extent, at.row, i);
  return absl::StrCat("shard=", data.shard, " block=", data.offset / layout.block_size());
}

}  // namespace ring::memgest
