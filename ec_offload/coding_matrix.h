// ec_offload/coding_matrix.h — the coding matrices of Jerasure, and the matrices that decode them.
//
// What:      VandermondeCoding and CauchyCoding, bit for bit those of Jerasure's
//            reed_sol_vandermonde_coding_matrix and cauchy_original_coding_matrix; PlanDecoding,
//            the matrix that gives erased blocks back from the first k survivors.
// Shape:     coding matrices are m x k (row j makes parity j); k, m >= 1 and k + m <= the field's
//            elements. A decode matrix is erasures x k.
// Threads:   pure.
// Errors:    kInvalidArgument: sizes out of bounds, erasures that are not ascending block indices
//            below k + m. kDataLoss: more erasures than m, or survivors that do not determine them.
// Cost:      Vandermonde and decoding are cubic; for set-up.
// Source:    Plank, Jerasure 2.0 (reed_sol.c, cauchy.c); the rule of the first k survivors is that
//            of its jerasure_make_decoding_matrix and of the NIC's driver.
#ifndef RING_EC_OFFLOAD_CODING_MATRIX_H_
#define RING_EC_OFFLOAD_CODING_MATRIX_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ec_offload/field.h"
#include "ec_offload/matrix.h"

namespace ring::ec_offload {

absl::StatusOr<Matrix> VandermondeCoding(Field field, std::size_t k, std::size_t m);
absl::StatusOr<Matrix> CauchyCoding(Field field, std::size_t k, std::size_t m);

struct DecodePlan {
  std::vector<std::size_t> survivors;  // k indices, data before parity
  Matrix inverse;                      // k x k: data from the survivors
  Matrix decode;                       // row o gives erasures[o] from the survivors
};

// A block's index is below k for data, k + j for parity j.
absl::StatusOr<DecodePlan> PlanDecoding(Field field, const Matrix& coding,
                                        absl::Span<const std::size_t> erasures);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_CODING_MATRIX_H_
