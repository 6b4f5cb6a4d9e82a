// srs/parameters.h — the numbers of a Stretched Reed-Solomon code, and their limits.
//
// What:      SrsParameters SRS(k,m,s) with its block size; Validate, which names the limit that is
//            broken.
// Units:     bytes for sizes.
// Threads:   a value type.
// Errors:    kInvalidArgument with the parameter, its value and its limits.
// Source:    Ring section 3.3; the limits are rule S9: 2 <= k <= s <= 16, 1 <= m <= 4, m >= k is
//            allowed.
#ifndef RING_SRS_PARAMETERS_H_
#define RING_SRS_PARAMETERS_H_

#include <cstdint>
#include <numeric>
#include <string>

#include "absl/status/status.h"

namespace ring::srs {

inline constexpr std::uint32_t kDataCountMin = 2;
inline constexpr std::uint32_t kShardCountMax = 16;
inline constexpr std::uint32_t kParityCountMax = 4;
inline constexpr std::uint64_t kBlockSizeMin = 4096;
inline constexpr std::uint64_t kBlockSizeMax = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kBlockSizeDefault = 256 * 1024;
// lcm(k, s) for k <= s <= 16 is at most lcm(15, 16).
inline constexpr std::uint32_t kStripeBlockCountMax = 240;

struct SrsParameters {
  std::uint32_t k = 0;  // data blocks of a parity row
  std::uint32_t m = 0;  // parity blocks of a parity row
  std::uint32_t s = 0;  // shards that the data is stretched over
  std::uint64_t block_size = kBlockSizeDefault;

  // Data blocks of a stretched stripe: l = lcm(k, s).
  std::uint32_t stripe_block_count() const { return std::lcm(k, s); }
  friend bool operator==(const SrsParameters&, const SrsParameters&) = default;
};

// block_size_min is lowered by tests of the mathematics only.
absl::Status Validate(const SrsParameters& parameters,
                      std::uint64_t block_size_min = kBlockSizeMin);

// "SRS(3,2,5)".
std::string ToString(const SrsParameters& parameters);

}  // namespace ring::srs

#endif  // RING_SRS_PARAMETERS_H_
