// ec_offload/schemes/lrc.h — LRC(k,l,r): local groups repair themselves.
//
// What:      MakeLrcScheme. Encoding: as RS. Repair: a chunk whose group of k/l has lost no other
//            comes from the k/l others by XOR; anything else from as few independent survivors as
//            determine it, at most k.
// Shape:     chunks 0..k-1 data, group g has k/l of them from g*k/l on; chunk k+g is the XOR of
//            group g; chunks k+l..k+l+r-1 are global parities.
// Threads:   pure.
// Errors:    kInvalidArgument: parameters that make no code; a code that misses a set of losses
//            which such a code can repair in principle; one with too many sets to be sure.
// Cost:      making one tries every set of l + r losses, by rank: 1,568 for (12,2,2).
// Source:    Huang et al., "Erasure Coding in Windows Azure Storage" (ATC'12). Global row e has
//            (2^j)^(2^e) for chunk j: complete for the published (4,2,2), (6,2,2), (12,2,2).
#ifndef RING_EC_OFFLOAD_SCHEMES_LRC_H_
#define RING_EC_OFFLOAD_SCHEMES_LRC_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "ec_offload/field.h"
#include "ec_offload/schemes/scheme.h"

namespace ring::ec_offload {

struct LrcParameters {
  std::size_t k = 0;
  std::size_t l = 0;
  std::size_t r = 0;
  Field field = Field::kGf256;
};

absl::StatusOr<std::unique_ptr<Scheme>> MakeLrcScheme(const LrcParameters& parameters);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_LRC_H_
