// srs/reliability.h — what a stretched code survives beyond what it promises.
//
// What:      CountPatterns: how many of the patterns of n lost nodes can be decoded (the f array of
//            Appendix A.2). Up to n = m it is all of them.
// Threads:   pure.
// Errors:    kInvalidArgument for parameters that Validate refuses.
// Cost:      CountPatterns enumerates all 2^(s+m) patterns: 35 ms for SRS(16,4,16).
// Source:    Ring Appendix A.2: SRS(2,1,4) tolerates a second failure with probability 2/5.
#ifndef RING_SRS_RELIABILITY_H_
#define RING_SRS_RELIABILITY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "srs/parameters.h"

namespace ring::srs {

// Of all patterns of `failures` lost nodes out of s+m: how many leave every row decodable.
struct PatternCount {
  std::uint64_t survivable = 0;
  std::uint64_t total = 0;
  double fraction() const {
    return total == 0 ? 0 : static_cast<double>(survivable) / static_cast<double>(total);
  }
};

// counts[n] for n = 0 .. s+m lost nodes. SRS(2,1,4) survives 4 of its 10 double losses.
absl::StatusOr<std::vector<PatternCount>> CountPatterns(const SrsParameters& parameters);

}  // namespace ring::srs

#endif  // RING_SRS_RELIABILITY_H_
