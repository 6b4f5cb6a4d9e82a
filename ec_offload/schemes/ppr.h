// ec_offload/schemes/ppr.h — PPR(k,m): partial-parallel repair.
//
// What:      MakePprScheme. Encoding: as RS. Repair: helpers multiply and add on the way up a
//            binomial tree, one for each wanted chunk: k messages in ceil(log2(k+1)) steps, where
//            the root of RS receives k of them one by one.
// Threads:   pure.
// Errors:    kInvalidArgument: parameters that make no code.
// Source:    Mitra et al., "Partial-Parallel-Repair (PPR)" (EuroSys'16); INEC (SC'20).
#ifndef RING_EC_OFFLOAD_SCHEMES_PPR_H_
#define RING_EC_OFFLOAD_SCHEMES_PPR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ec_offload/schemes/code.h"
#include "ec_offload/schemes/scheme.h"

namespace ring::ec_offload {

absl::StatusOr<std::unique_ptr<Scheme>> MakePprScheme(const MdsParameters& parameters);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_PPR_H_
