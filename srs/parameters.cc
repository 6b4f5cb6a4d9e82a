#include "srs/parameters.h"

#include <bit>

#include "absl/strings/str_cat.h"

namespace ring::srs {

absl::Status Validate(const SrsParameters& parameters, std::uint64_t block_size_min) {
  const std::string name = ToString(parameters);
  if (parameters.s < kDataCountMin || parameters.s > kShardCountMax) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": s=", parameters.s, " must be ",
                                                   kDataCountMin, " to ", kShardCountMax,
                                                   ", the count of shards"));
  }
  if (parameters.k < kDataCountMin || parameters.k > parameters.s) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": k=", parameters.k, " must be ",
                                                   kDataCountMin, " to s=", parameters.s));
  }
  if (parameters.m < 1 || parameters.m > kParityCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": m=", parameters.m, " must be 1 to ", kParityCountMax));
  }
  if (!std::has_single_bit(parameters.block_size) || parameters.block_size < block_size_min ||
      parameters.block_size > kBlockSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": block_size=", parameters.block_size,
                                                   " must be a power of two from ", block_size_min,
                                                   " to ", kBlockSizeMax));
  }
  return absl::OkStatus();
}

std::string ToString(const SrsParameters& parameters) {
  return absl::StrCat("SRS(", parameters.k, ",", parameters.m, ",", parameters.s, ")");
}

}  // namespace ring::srs
