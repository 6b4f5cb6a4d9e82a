#include "memgest/memgest.h"

#include <utility>

#include "ec_offload/matrix.h"
#include "ring/base/check.h"
#include "srs/generator.h"
#include "srs/parameters.h"

namespace ring::memgest {

Memgest::Memgest(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, ShardId shard,
                 int s, LineTable* lines, std::vector<LogWriter*> members)
    : descriptor_(descriptor),
      shard_(shard),
      heap_(device),
      allocator_(descriptor.id, descriptor.block_size, lines, &heap_),
      members_(std::move(members)),
      acks_needed_(descriptor.AcksNeeded()),
      failures_tolerated_(descriptor.FailuresTolerated()) {
  if (!coded()) return;
  RING_CHECK(members_.size() == descriptor.m) << "memgest=" << descriptor.name;
  const srs::SrsParameters parameters{descriptor.k, descriptor.m, static_cast<std::uint32_t>(s),
                                      descriptor.block_size};
  absl::StatusOr<srs::Layout> layout = srs::Layout::Create(parameters);
  RING_CHECK(layout.ok())
      << layout.status().ToString();  // the descriptor was validated when it was created
  layout_ = *std::move(layout);
  absl::StatusOr<ec_offload::Matrix> generator = srs::MakeGenerator(descriptor.k, descriptor.m);
  RING_CHECK(generator.ok()) << generator.status().ToString();
  for (std::size_t column = 0; column < descriptor.k; ++column) {
    std::vector<ec_offload::gf256::Element> coefficients;
    for (std::size_t j = 0; j < descriptor.m; ++j) coefficients.push_back(generator->At(j, column));
    calculators_.emplace_back(coefficients, ec_offload::DeltaCalculator::Slot::kWrittenUnsummed);
  }
}

const ec_offload::DeltaCalculator& Memgest::CalculatorAt(std::uint32_t offset_cells) const {
  return calculators_[layout_->Locate(shard_.value(), std::uint64_t{offset_cells} * 64).column];
}

}  // namespace ring::memgest
