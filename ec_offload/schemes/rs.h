// ec_offload/schemes/rs.h — RS(k,m): the agent computes.
//
// What:      MakeRsScheme. Encoding: the agent computes the parities and sends k + m chunks.
//            Repair: k survivors send their chunks, who wants them computes.
// Threads:   pure.
// Errors:    kInvalidArgument: parameters that make no code.
// Source:    INEC (SC'20).
#ifndef RING_EC_OFFLOAD_SCHEMES_RS_H_
#define RING_EC_OFFLOAD_SCHEMES_RS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ec_offload/schemes/code.h"
#include "ec_offload/schemes/scheme.h"

namespace ring::ec_offload {

absl::StatusOr<std::unique_ptr<Scheme>> MakeRsScheme(const MdsParameters& parameters);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_RS_H_
