// ec_offload/schemes/code.h — a linear code of chunks, and how some of its chunks come from others.
//
// What:      Code; MakeMdsCode, of k data and m parity chunks; Combine, which finds wanted chunks
//            as combinations of survivors.
// Shape:     generator (data_count + parities) x data_count, whose first rows are the identity:
//            row i makes chunk i of the data.
// Threads:   pure.
// Errors:    kInvalidArgument: sizes and matrices that make no code. kDataLoss: chunks that the
//            survivors do not determine, by name. That is decided by rank, never by counting.
// Cost:      cubic; for set-up and repairs.
// Source:    Jerasure's Vandermonde matrix by default: its first parity is a plain xor, and any k
//            rows of the generator are independent.
#ifndef RING_EC_OFFLOAD_SCHEMES_CODE_H_
#define RING_EC_OFFLOAD_SCHEMES_CODE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ec_offload/field.h"
#include "ec_offload/graph/graph.h"
#include "ec_offload/matrix.h"

namespace ring::ec_offload {

struct Code {
  std::string name;  // "RS(6,3)", for errors
  Field field = Field::kGf256;
  Matrix generator;

  std::size_t data_count() const { return generator.columns(); }
  std::size_t chunk_count() const { return generator.rows(); }
};

struct MdsParameters {
  std::size_t k = 0;
  std::size_t m = 0;
  Field field = Field::kGf256;
  // m x k; none: VandermondeCoding.
  std::optional<Matrix> coding = std::nullopt;
};

// The code is named "name(k,m)".
absl::StatusOr<Code> MakeMdsCode(absl::string_view name, const MdsParameters& parameters);

// The chunks that are used, and what of them makes each wanted chunk: wanted x helpers.
struct Recipe {
  std::vector<ChunkId> helpers;
  Matrix factors;
};

// Helpers are the fewest of the first survivors that are independent: in the order given, those
// that depend on earlier ones are left out, and those that nobody needs.
absl::StatusOr<Recipe> Combine(const Code& code, absl::Span<const ChunkId> survivors,
                               absl::Span<const ChunkId> wanted);

// "chunks 1, 4, 7", or "chunk 1".
std::string ChunkNames(absl::Span<const ChunkId> chunks);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_SCHEMES_CODE_H_
