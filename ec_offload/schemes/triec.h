// ec_offload/schemes/triec.h — TriEC(k,m): three layers, so that nobody computes alone.
//
// What:      MakeTriEcScheme. Encoding: the agent sends data chunks, data nodes multiply them for
//            each parity, parity nodes add: k + k*m messages. Repair of e chunks: k survivors
//            multiply for each of them, the node that takes a lost one's place adds, keeps the
//            chunk and sends it on: k*e + e messages. In a degraded read it does not keep it.
// Threads:   pure.
// Errors:    kInvalidArgument: parameters that make no code.
// Source:    Shi and Lu, "TriEC" (SC'19); INEC (SC'20).
#ifndef RING_EC_OFFLOAD_SCHEMES_TRIEC_H_
#define RING_EC_OFFLOAD_SCHEMES_TRIEC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ec_offload/schemes/code.h"
#include "ec_offload/schemes/scheme.h"

namespace ring::ec_offload {

absl::StatusOr<std::unique_ptr<Scheme>> MakeTriEcScheme(const MdsParameters& parameters);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_TRIEC_H_
