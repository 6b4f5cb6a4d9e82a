#include "srs/layout.h"

#include "ring/base/status.h"

namespace ring::srs {

absl::StatusOr<Layout> Layout::Create(const SrsParameters& parameters,
                                      std::uint64_t block_size_min) {
  RING_RETURN_IF_ERROR(Validate(parameters, block_size_min));
  return Layout(parameters);
}

Layout::Layout(const SrsParameters& parameters) : parameters_(parameters) {
  const std::uint32_t blocks = parameters.stripe_block_count();
  block_shift_ = static_cast<std::uint32_t>(std::countr_zero(parameters.block_size));
  blocks_per_shard_ = blocks / parameters.s;
  row_count_ = blocks / parameters.k;
  // Exact for index < 2^28: the error of the product is below index * 16 / 2^32 < 1
  // (blocks_per_shard <= 16).
  const std::uint64_t one = std::uint64_t{1} << 32;
  reciprocal_of_blocks_per_shard_ = (one + blocks_per_shard_ - 1) / blocks_per_shard_;
  for (std::uint32_t t = 0; t < blocks; ++t) {
    cells_[t] = {static_cast<std::uint8_t>(t / row_count_),
                 static_cast<std::uint8_t>(t % row_count_),
                 static_cast<std::uint8_t>(t / blocks_per_shard_),
                 static_cast<std::uint8_t>(t % blocks_per_shard_)};
  }
}

}  // namespace ring::srs
