// tests/ec_offload/schemes/all_schemes.h — the schemes over one MDS code, by name.
//
// What:      kMdsSchemes, and MakeMdsScheme, with slices small enough for small chunks.
// Threads:   pure.
// Errors:    those of the schemes.
#ifndef RING_TESTS_EC_OFFLOAD_SCHEMES_ALL_SCHEMES_H_
#define RING_TESTS_EC_OFFLOAD_SCHEMES_ALL_SCHEMES_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "ec_offload/schemes/ecpipe.h"
#include "ec_offload/schemes/ppr.h"
#include "ec_offload/schemes/rs.h"
#include "ec_offload/schemes/triec.h"
#include "ring/base/check.h"

namespace ring::ec_offload {

enum class MdsScheme { kRs, kPpr, kEcPipe, kEcPipeCyclic, kTriEc };

inline constexpr MdsScheme kMdsSchemes[] = {MdsScheme::kRs, MdsScheme::kPpr, MdsScheme::kEcPipe,
                                            MdsScheme::kEcPipeCyclic, MdsScheme::kTriEc};

inline absl::StatusOr<std::unique_ptr<Scheme>> MakeMdsScheme(MdsScheme scheme,
                                                             const MdsParameters& parameters,
                                                             std::size_t slice_size = 8) {
  switch (scheme) {
    case MdsScheme::kRs:
      return MakeRsScheme(parameters);
    case MdsScheme::kPpr:
      return MakePprScheme(parameters);
    case MdsScheme::kEcPipe:
      return MakeEcPipeScheme({parameters, slice_size, ChainOrder::kBasic});
    case MdsScheme::kEcPipeCyclic:
      return MakeEcPipeScheme({parameters, slice_size, ChainOrder::kCyclic});
    case MdsScheme::kTriEc:
      break;
  }
  return MakeTriEcScheme(parameters);
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_SCHEMES_ALL_SCHEMES_H_
