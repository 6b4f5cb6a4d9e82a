#include "memgest/memgest.h"

#include <utility>

#include "memgest/parity_store.h"
#include "ring/base/check.h"
#include "srs/generator.h"
#include "srs/parameters.h"

namespace ring::memgest {
namespace {

srs::SrsParameters ParametersOf(const protocol::MemgestDescriptor& descriptor, int s) {
  return {descriptor.k, descriptor.m, static_cast<std::uint32_t>(s), descriptor.block_size};
}

srs::Layout LayoutOf(const protocol::MemgestDescriptor& descriptor, int s) {
  absl::StatusOr<srs::Layout> layout = srs::Layout::Create(ParametersOf(descriptor, s));
  RING_CHECK(layout.ok())
      << layout.status().ToString();  // the descriptor was validated when it was created
  return *std::move(layout);
}

// An extent has more parity rows than a shard has blocks in it, and all of them must have a place
// in the 2^32 cells of the parities (S4).
std::uint32_t BlockLimit(const protocol::MemgestDescriptor& descriptor, int s) {
  if (descriptor.scheme != protocol::Scheme::kStretchedReedSolomon) return ~std::uint32_t{0};
  const srs::Layout layout = LayoutOf(descriptor, s);
  const std::uint64_t extents = ParityStore::kSpaceSize / layout.parity_extent_size();
  return static_cast<std::uint32_t>(extents * layout.blocks_per_shard());
}

}  // namespace

Memgest::Memgest(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, ShardId shard,
                 int s, int d, LineTable* lines, std::optional<HeapSpace> heap)
    : descriptor_(descriptor),
      shard_(shard),
      heap_(heap.has_value() ? *std::move(heap) : HeapSpace(device)),
      allocator_(descriptor.id, descriptor.block_size, lines, &heap_, BlockLimit(descriptor, s)),
      members_(descriptor, descriptor.MemberRoles(shard, s, d)),
      failures_tolerated_(descriptor.FailuresTolerated()) {
  if (!coded()) return;
  layout_ = LayoutOf(descriptor, s);
  absl::StatusOr<ec_offload::Matrix> generator = srs::MakeGenerator(descriptor.k, descriptor.m);
  RING_CHECK(generator.ok()) << generator.status().ToString();
  generator_ = *std::move(generator);
  for (std::size_t column = 0; column < descriptor.k; ++column) {
    std::vector<ec_offload::gf256::Element> coefficients;
    for (std::size_t j = 0; j < descriptor.m; ++j) coefficients.push_back(generator_.At(j, column));
    calculators_.emplace_back(coefficients, ec_offload::DeltaCalculator::Slot::kWrittenUnsummed);
    delta_calculators_.emplace_back(coefficients, ec_offload::DeltaCalculator::Slot::kUntouched);
  }
}

const ec_offload::DeltaCalculator& Memgest::CalculatorAt(std::uint32_t offset_cells) const {
  return calculators_[ColumnAt(offset_cells)];
}

const ec_offload::DeltaCalculator& Memgest::DeltasAt(std::uint32_t offset_cells) const {
  return delta_calculators_[ColumnAt(offset_cells)];
}

}  // namespace ring::memgest
