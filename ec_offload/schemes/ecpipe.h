// ec_offload/schemes/ecpipe.h — ECPipe(k,m): repair as a pipeline of slices.
//
// What:      MakeEcPipeScheme. Encoding: as RS. Repair: each slice's partial sum goes from helper
//            to helper: k messages a slice, and s slices take k + s - 1 of their steps, little more
//            than a plain read of the chunk.
// Units:     slice_size in bytes; a smaller chunk is one slice, the last slice may be shorter.
// Threads:   pure.
// Errors:    kInvalidArgument: parameters that make no code, a slice_size of 0.
// Source:    Li et al., "Repair Pipelining for Erasure-Coded Storage" (ATC'17); INEC (SC'20), whose
//            slices are of 32 KiB.
#ifndef RING_EC_OFFLOAD_SCHEMES_ECPIPE_H_
#define RING_EC_OFFLOAD_SCHEMES_ECPIPE_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "ec_offload/graph/layout.h"
#include "ec_offload/schemes/code.h"
#include "ec_offload/schemes/scheme.h"

namespace ring::ec_offload {

struct EcPipeParameters {
  MdsParameters code;
  std::size_t slice_size = 32 * 1024;
  ChainOrder order = ChainOrder::kBasic;
};

absl::StatusOr<std::unique_ptr<Scheme>> MakeEcPipeScheme(const EcPipeParameters& parameters);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_ECPIPE_H_
