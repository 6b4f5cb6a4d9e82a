// srs/generator.h — the generator matrix of RS(k,m), and its stretched form.
//
// What:      MakeGenerator: a Cauchy matrix, each column divided by its first element, so that row
//            0 is all ones and parity 0 is a plain xor. ExpandedMatrix: H_exp of Eqn (2), the
//            oracle of tests.
// Shape:     generator m x k (the G of Eqn (1), without the identity); expanded (l + l*m/k) x l.
// Threads:   pure.
// Errors:    kInvalidArgument where k, m are out of range.
// Cost:      MakeGenerator inverts every square minor: at most 5,000 for the sizes of
//            SrsParameters.
// Source:    Ring sections 3.2 and 3.3, Eqns (1) to (5). Rule S9: the matrix that Eqn (1) suggests
//            (powers of the column number) is singular for some losses in GF(2^8) from m = 4 on;
//            scaling a column of a Cauchy matrix keeps every minor invertible.
#ifndef RING_SRS_GENERATOR_H_
#define RING_SRS_GENERATOR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "ec_offload/matrix.h"

namespace ring::srs {

inline constexpr std::uint32_t kGeneratorColumnCountMax = 32;
inline constexpr std::uint32_t kGeneratorRowCountMax = 16;

absl::StatusOr<ec_offload::Matrix> MakeGenerator(std::uint32_t k, std::uint32_t m);

// Row 0 is all ones and every square minor is invertible: what the store relies on (S8, S9).
absl::Status CheckGenerator(const ec_offload::Matrix& generator);

// REQUIRES: s >= 1.
ec_offload::Matrix ExpandedMatrix(const ec_offload::Matrix& generator, std::uint32_t s);

}  // namespace ring::srs

#endif  // RING_SRS_GENERATOR_H_
